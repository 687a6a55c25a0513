"""How many connections a server holds, and for how long: those who say nothing can't keep the owner of a job out.

Anybody on the machine can open connections, and many of them. So:

1. Who has not sent a whole request within ten seconds is let go, and so is who does not read the answer.
2. At most 192 connections are held that have not shown the token. A newcomer always gets in: the one that has waited
   longest without a request goes, or else the one that has been answered longest.
3. Connections that have shown the token are not among those, so nobody can take their places.
4. Streams of events last, so without the token there may be 32 of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from uvicorn.protocols.http.h11_impl import H11Protocol

from beadline.web.security import Rules

#: How long a request may take to arrive, and an answer to be read.
PATIENCE_SECONDS = 10.0
MOST_STRANGERS = 192
MOST_STRANGE_STREAMS = 32
#: How many connections are accepted in one turn of the loop: fewer than strangers, or they could push out a newcomer
#: before it has said its first word.
BACKLOG = 64


class Strangers:
    """The connections that have not shown the token, in the order in which they came."""

    def __init__(self) -> None:
        self._all: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, newcomer: Connection) -> None:
        """One more; if there are too many, another one goes."""
        if len(self._all) >= MOST_STRANGERS:
            waiting = next((each for each in self._all if each.waits), None)
            (waiting or next(iter(self._all))).abort()
        self._all[newcomer] = None

    def discard(self, connection: Connection) -> None:
        self._all.pop(connection, None)


class Connection(H11Protocol):
    """uvicorn's connection, with limits. Made by :func:`connections`."""

    strangers: Strangers
    rules: Rules
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.strangers.add(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.strangers.discard(self)
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        self._timer = self._unread = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        if self.headers is not None and self.rules.is_token_in(self.headers):
            self.strangers.discard(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # the next request was there already
            self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(PATIENCE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def waits(self) -> bool:
        """Whether there is no whole request that is not answered yet."""
        cycle = self.cycle
        return cycle is None or bool(cycle.response_complete) or bool(cycle.more_body)

    def abort(self) -> None:
        self.strangers.discard(self)
        if self.waits:  # there is nothing that it has not got yet
            self.transport.close()
        else:
            self.transport.abort()

    def _watch(self) -> None:
        """Count the time while a request is on its way; more bytes of it don't begin the count again. Between two
        requests uvicorn's own limit for idle connections holds."""
        if not self.waits:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            self._timer = self.loop.call_later(PATIENCE_SECONDS, self.abort)


def connections(rules: Rules) -> type[Connection]:
    """The class of a server's connections, which share its limits."""
    return type("ServerConnection", (Connection,), {"strangers": Strangers(), "rules": rules})


class Streams:
    """How many streams of events are open without the token; all on the server's loop."""

    def __init__(self) -> None:
        self._strange = 0

    @property
    def is_full(self) -> bool:
        return self._strange >= MOST_STRANGE_STREAMS

    @contextmanager
    def open(self, is_strange: bool) -> Iterator[None]:
        self._strange += is_strange
        try:
            yield
        finally:
            self._strange -= is_strange
