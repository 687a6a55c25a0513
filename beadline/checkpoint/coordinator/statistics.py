"""What is known of the checkpoints of a job: one record each, and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind, FailureReason

#: How many records of checkpoints that have ended are kept, unless the job says otherwise.
HISTORY = 1000


class CheckpointStatus(Enum):
    """Where a checkpoint stands; the last two are final."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class OperatorSizes:
    """What a checkpoint holds of an operator, in bytes, by subtask: all that it refers to, and what of it is new."""

    uid: str
    sizes: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True)
class CheckpointStats:
    """One checkpoint; times in milliseconds since 1970, ``None`` for what has not come yet. They follow from the time
    of the trigger and how long things took, so they make sense even if the machine's clock was set meanwhile. ``size``
    was written for it, ``full_size`` is all the state it refers to, and ``operators`` has both in detail. ``format`` is
    a savepoint's."""

    id: int
    kind: CheckpointKind
    triggered_at: int
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    step: int | None = None
    in_flight: int | None = None
    taken_at: int | None = None
    ended_at: int | None = None
    size: int | None = None
    full_size: int | None = None
    path: str | None = None
    reason: FailureReason | None = None
    message: str = ""
    discarded: bool = False
    format: str | None = None
    operators: tuple[OperatorSizes, ...] = ()

    @property
    def alignment_ms(self) -> int | None:
        """How long it waited for the running step."""
        return None if self.taken_at is None else self.taken_at - self.triggered_at

    @property
    def duration_ms(self) -> int | None:
        """From the trigger to the end, whichever end it was."""
        return None if self.ended_at is None else self.ended_at - self.triggered_at

    @property
    def type(self) -> str:
        """The sort of checkpoint, in words."""
        if self.kind.is_savepoint:
            return self.kind.value
        return "unaligned checkpoint" if self.in_flight is not None else "aligned checkpoint"

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for people and programs."""
        return {
            "id": self.id,
            "type": self.type,
            "status": self.status.name,
            "step": self.step,
            "triggered_at": self.triggered_at,
            "taken_at": self.taken_at,
            "ended_at": self.ended_at,
            "alignment_ms": self.alignment_ms,
            "duration_ms": self.duration_ms,
            "size": self.size,
            "full_size": self.full_size,
            "path": self.path,
            "failure": self.failure,
            "discarded": self.discarded,
        }

    @property
    def failure(self) -> str | None:
        """Why it failed, in a sentence or two."""
        return None if self.reason is None else f"{self.reason.value} {self.message}".strip()

    def packed(self) -> dict[str, Any]:
        """All of it, as JSON can hold it; :meth:`unpacked` reads it."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        found.update(kind=self.kind.name, status=self.status.name)
        if self.reason is not None:
            found["reason"] = self.reason.name
        found["operators"] = [[each.uid, each.sizes, each.written] for each in self.operators]
        return found

    @classmethod
    def unpacked(cls, data: Mapping[str, Any]) -> CheckpointStats | None:
        """What was packed, also by another version; None if it does not make sense in this one."""
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        try:
            known["kind"] = CheckpointKind[known["kind"]]
            known["status"] = CheckpointStatus[known["status"]]
            if "reason" in known:
                known["reason"] = FailureReason[known["reason"]]
            known["operators"] = tuple(
                OperatorSizes(uid, tuple(sizes), tuple(written)) for uid, sizes, written in known.get("operators", ())
            )
            return cls(**known)
        except (KeyError, TypeError, ValueError):
            return None


class CheckpointStatistics:
    """The newest records, and those of checkpoints that are running. ``wall`` makes the coordinator's time one for
    people; ``earlier`` records are of drivers before this one, oldest first."""

    def __init__(
        self, wall: Callable[[int], int] = int, history: int = HISTORY, earlier: Iterable[CheckpointStats] = ()
    ) -> None:
        self._wall = wall
        self.triggered = self.completed = self.failed = 0
        self._running: dict[int, CheckpointStats] = {}
        self._ahead: dict[int, int] = {}
        self._ended: deque[CheckpointStats] = deque(earlier, maxlen=history)

    def __iter__(self) -> Iterator[CheckpointStats]:
        """The records that are kept, newest first."""
        kept = {stats.id: stats for stats in [*list(self._ended), *list(self._running.values())]}
        return iter([kept[id] for id in sorted(kept, reverse=True)])

    def get(self, id: int) -> CheckpointStats | None:
        """The record of a checkpoint, if it is still kept."""
        if id in self._running:
            return self._running[id]
        return next((stats for stats in reversed(self._ended) if stats.id == id), None)

    def count(self, triggered: int, completed: int, failed: int) -> None:
        """Go on counting from what earlier drivers have counted."""
        self.triggered, self.completed, self.failed = triggered, completed, failed

    # -- for the coordinator

    def begin(self, id: int, kind: CheckpointKind, now: int) -> None:
        self.triggered += 1
        triggered_at = self._wall(now)
        self._ahead[id] = triggered_at - now
        self._running[id] = CheckpointStats(id, kind, triggered_at)

    def take(self, id: int, step: int, in_flight: int | None, now: int) -> None:
        self._running[id] = replace(self._running[id], step=step, in_flight=in_flight, taken_at=now + self._ahead[id])

    def complete(self, id: int, now: int, size: int, full_size: int | None, path: str | None, **details: Any) -> None:
        """``details``: ``operators`` and ``format``, if known."""
        self.completed += 1
        full = size if full_size is None else full_size
        self._end(id, now, status=CheckpointStatus.COMPLETED, size=size, full_size=full, path=path, **details)

    def fail(self, id: int, now: int, reason: FailureReason, message: str) -> None:
        self.failed += 1
        self._end(id, now, status=CheckpointStatus.FAILED, reason=reason, message=message)

    def _end(self, id: int, now: int, **facts: Any) -> None:
        self._ended.append(replace(self._running.pop(id), ended_at=now + self._ahead.pop(id), **facts))

    def discard(self, ids: tuple[int, ...]) -> None:
        marked = (replace(stats, discarded=True) if stats.id in ids else stats for stats in self._ended)
        self._ended = deque(marked, maxlen=self._ended.maxlen)
