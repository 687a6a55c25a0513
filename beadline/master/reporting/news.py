"""What a watcher of a job wants to know: one stream of typed events, with a bounded history.

If the job's place is in files, the history is kept there too, so that a resumed job continues it.
It is for people: nothing is decided by it, and a job whose history can't be written runs on.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from beadline.checkpoint.coordinator.statistics import CheckpointStats
from beadline.checkpoint.storage.storage import JobStorage
from beadline.common.secrets import without_passwords
from beadline.master.engines.threads import Threads
from beadline.master.reporting.telling import first_line

_LOG = logging.getLogger("beadline")

# How many events are kept: of steps, which come all the time, and of everything else.
_STEPS = 100
_OTHERS = 300
_LAST_WRITE_SECONDS = 5.0


@dataclass(frozen=True)
class StepReport:
    """A step was sealed.

    :ivar keys: entries in keyed state, over all operators
    :ivar state_bytes: size of the files that the present state is in
    :ivar places: the executor of each subtask of the last level, as ``workers`` is its process
    :ivar at: when it was sealed, in milliseconds since 1970
    """

    job_name: str
    step: int
    records: int
    total_records: int
    seconds: float
    keys: int
    touched: int
    state_bytes: int
    watermark: int | None
    tries: int
    final: bool
    places: dict[int, str]
    workers: dict[int, int]
    at: int = 0


@dataclass(frozen=True)
class StatusChanged:
    """The job's status has changed, and with it the state of its life, see :mod:`beadline.master.life`."""

    at: int
    status: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class CheckpointChanged:
    """A checkpoint or savepoint has entered another phase: triggered, taken, completed, published, or failed."""

    at: int
    id: int
    type: str
    phase: str
    step: int | None = None
    duration_ms: int | None = None
    size: int | None = None
    full_size: int | None = None
    path: str | None = None
    failure: str | None = None

    @classmethod
    def of(cls, stats: CheckpointStats, at: int, phase: str) -> CheckpointChanged:
        facts = stats.step, stats.duration_ms, stats.size, stats.full_size, stats.path, stats.failure
        return cls(at, stats.id, stats.type, phase, *facts)


@dataclass(frozen=True)
class ExecutionFailed:
    """An execution has failed; ``restarted_from`` is where the next one starts, None if there is none.

    :ivar error: in a line
    :ivar name: the class of what was raised: of the user's error, if user code raised it
    :ivar traceback: the error and the user's line, then the user's frames and what caused it
    :ivar operator: which operator failed, if one did, in which subtask, and at which record
    """

    at: int
    attempt: int
    error: str
    restarted_from: str | None
    name: str = ""
    traceback: str = ""
    operator: str | None = None
    subtask: int | None = None
    record: str | None = None


@dataclass(frozen=True)
class ExecutionStarted:
    """An execution runs, from a checkpoint (None for the beginning) that holds ``step``, and is at ``path``."""

    at: int
    attempt: int
    checkpoint: int | None
    step: int
    path: str | None = None
    savepoint: bool = False


News: TypeAlias = StepReport | StatusChanged | CheckpointChanged | ExecutionFailed | ExecutionStarted
Watcher = Callable[[News], None]
Listener = Callable[[StepReport], None]
Numbered: TypeAlias = tuple[int, News]
"""An event with its number: they count from 1 in each driver."""
Guest = Callable[[int, News], None]

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(News)}
_MAPS_BY_NUMBER = ("places", "workers")


class NewsStream:
    """Tells watchers, and keeps the newest events, also in the job's storage."""

    def __init__(self, storage: JobStorage, watchers: Iterable[Watcher] = ()) -> None:
        self._storage = storage
        self._watchers = list(watchers)
        self._steps: deque[Numbered] = deque(maxlen=_STEPS)
        self._others: deque[Numbered] = deque(maxlen=_OTHERS)
        self._number = 0
        self._guests: tuple[Guest, ...] = ()
        self._lock = threading.Lock()
        self._writer = Threads(1, "beadline-history")
        self._to_write: bytes | None = None
        self._closed = False
        for event in earlier_news(storage.history()):
            self._keep(event)

    @property
    def history(self) -> list[News]:
        """The newest events, oldest first; also those of earlier drivers of the job."""
        kept = [event for _, event in (*list(self._steps), *list(self._others))]
        return sorted(kept, key=lambda event: event.at)

    def join(self, guest: Guest, after: int = 0) -> list[Numbered]:
        """Tell a guest of all that happens from now on, until it leaves; gives what is kept of the events with higher
        numbers than ``after``, oldest first. A guest is called in the job's own thread and must return at once."""
        with self._lock:
            self._guests = (*self._guests, guest)
            found = [entry for entry in (*self._steps, *self._others) if entry[0] > after]
            return sorted(found, key=lambda entry: entry[0])

    def leave(self, guest: Guest) -> None:
        with self._lock:
            self._guests = tuple(each for each in self._guests if each is not guest)

    def tell(self, event: News) -> None:
        """Something has happened. What a watcher raises is logged, and the job goes on. Nobody hears of passwords that
        texts of errors and records may hold."""
        event = without_secrets(event)
        number, guests = self._keep(event)
        for guest in guests:
            guest(number, event)
        for watcher in self._watchers:
            try:
                watcher(event)
            except Exception as error:
                _LOG.warning("a listener raised %r; the job goes on", error)
        if not isinstance(event, StepReport):  # steps come too often, and are written with whatever comes next
            self._write_soon()

    def close(self) -> None:
        """What is told from now on is not written: the job's place may go away."""
        self._closed = True
        self._writer.end(_LAST_WRITE_SECONDS)

    def _keep(self, event: News) -> tuple[int, tuple[Guest, ...]]:
        with self._lock:
            self._number += 1
            (self._steps if isinstance(event, StepReport) else self._others).append((self._number, event))
            return self._number, self._guests

    def _write_soon(self) -> None:
        if self._closed or not self._storage.survives_driver:
            return
        data = _encoded(self.history)  # takes a while, in which the writer may come to its end
        with self._lock:
            idle, self._to_write = self._to_write is None, data
        if idle:
            self._writer.submit(self._write)

    def _write(self) -> None:
        """In a thread: what came last, if several came meanwhile."""
        with self._lock:
            data, self._to_write = self._to_write, None
        if data is None:
            return
        try:
            self._storage.keep_history(data)
        except Exception as error:
            _LOG.debug("the job's history can't be written: %s", first_line(error))


def without_secrets(event: News) -> News:
    """The event with all its texts masked."""
    if isinstance(event, StepReport):  # it has none, and comes often
        return event
    masked: dict[str, Any] = {
        name: without_passwords(value) for name, value in vars(event).items() if isinstance(value, str)
    }
    return dataclasses.replace(event, **masked)


def _encoded(history: list[News]) -> bytes:
    return json.dumps([{"event": type(event).__name__, **dataclasses.asdict(event)} for event in history]).encode()


def earlier_news(data: bytes | None) -> list[News]:
    """What earlier drivers have kept. Events and fields that this version does not know are left out."""
    try:
        entries = json.loads(data) if data else []
    except ValueError:
        return []
    found = []
    for entry in entries if isinstance(entries, list) else ():
        kind = _KINDS.get(entry.get("event", ""))
        if kind is None:
            continue
        entry = {name: value for name, value in entry.items() if name in kind.__dataclass_fields__}
        for name in _MAPS_BY_NUMBER:
            if name in entry:
                entry[name] = {int(number): value for number, value in entry[name].items()}
        try:
            found.append(without_secrets(kind(**entry)))  # earlier versions masked them only where they were shown
        except TypeError:
            continue
    return found
