"""Where everything that happens to a job reaches its master, in its order."""

from __future__ import annotations

import contextlib
from collections import deque
from queue import Empty, SimpleQueue

from beadline.errors import ConfigurationError
from beadline.master.events import Event, Request


class Inbox:
    """Any thread puts events in; the job master's thread takes them out."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._postponed: deque[Event] = deque()

    def __repr__(self) -> str:
        return f"<Inbox: {self._events.qsize()} events, {len(self._postponed)} postponed>"

    def put(self, event: Event) -> None:
        self._events.put(event)

    def next(self, patience: float | None = None) -> Event | None:
        """What has happened.

        :param patience: seconds to wait for it, None for not at all
        """
        if self._postponed:
            return self._postponed.popleft()
        with contextlib.suppress(Empty):
            if patience is None:
                return self._events.get_nowait()
            return self._events.get(timeout=max(0.001, patience))
        return None

    def postpone(self, patience: float) -> None:
        """Wait a while for an event, and leave it for later."""
        with contextlib.suppress(Empty):
            self._postponed.append(self._events.get(timeout=patience))

    def refuse(self, why: str) -> None:
        """Refuse the requests that still wait: nobody will answer them."""
        while (event := self.next()) is not None:
            if isinstance(event, Request):
                event.fail(ConfigurationError(why))
