"""Views: sealed steps that somebody outside the job looks at, and whose files stay meanwhile.

Merging deletes the files that it has replaced. Who reads the state of a running job asks its master for a view: a copy
of the truth, taken in the master's thread between two events, so that it is one sealed step. The files that it names
are kept until the view is let go of or its time is up, whoever may have died in between. Nothing waits for a reader.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from beadline.checkpoint.contents.snapshot import Snapshot

#: How long a view can be kept for at a time, in seconds.
LONGEST = 600.0


@dataclass(frozen=True)
class View:
    """A sealed step, as a snapshot that nobody has written."""

    id: str
    snapshot: Snapshot
    _views: Views

    def keep(self, seconds: float) -> bool:
        """Keep it for so many seconds from now; False if its time was up before."""
        return self._views.keep(self.id, seconds)

    @property
    def is_open(self) -> bool:
        return self._views.is_open(self.id)

    def close(self) -> None:
        """Let go of its files."""
        self._views.close(self.id)


class Views:
    """The views of a job that are open. Any thread may call it.

    :param clock: seconds that nobody can set back
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, tuple[float, frozenset[str]]] = {}

    def __repr__(self) -> str:
        return f"<{len(self._open)} views of {len(self.files())} files>"

    def open(self, snapshot: Snapshot, seconds: float) -> View:
        """Keep the files of a snapshot for so many seconds."""
        view = View(uuid.uuid4().hex, snapshot, self)
        with self._lock:
            self._open[view.id] = (self._until(seconds), snapshot.files())
        return view

    def keep(self, id: str, seconds: float) -> bool:
        with self._lock:
            self._drop_old()
            if id not in self._open:
                return False
            self._open[id] = (self._until(seconds), self._open[id][1])
            return True

    def is_open(self, id: str) -> bool:
        with self._lock:
            self._drop_old()
            return id in self._open

    def close(self, id: str) -> None:
        with self._lock:
            self._open.pop(id, None)

    def files(self) -> frozenset[str]:
        """The files that must stay now."""
        with self._lock:
            self._drop_old()
            return frozenset().union(*(files for _, files in self._open.values()))

    def _until(self, seconds: float) -> float:
        return self._clock() + min(max(seconds, 0.0), LONGEST)

    def _drop_old(self) -> None:
        now = self._clock()
        self._open = {id: held for id, held in self._open.items() if held[0] > now}
