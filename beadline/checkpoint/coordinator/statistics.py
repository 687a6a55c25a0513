"""What is known of the checkpoints of a job: one record each, counts, and the latest of every sort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.coordinator.reasons import FailureReason

__all__ = ["CheckpointStatistics", "CheckpointStats", "CheckpointStatus", "RestoreStats"]


class CheckpointStatus(Enum):
    """Where a checkpoint stands; the last two are final."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class CheckpointStats:
    """One checkpoint; times in milliseconds since 1970, ``None`` for what has not come yet.

    They follow from the time of the trigger and from how long things took: they make sense even if the machine's clock
    was set meanwhile.

    :ivar taken_at: when its step was sealed or overtaken
    :ivar size: bytes that were written for it
    :ivar full_size: bytes of all the state it refers to
    """

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


@dataclass(frozen=True)
class RestoreStats:
    """A restore; ``id`` is ``None`` if the job started over from the beginning."""

    id: int | None
    at: int


@dataclass
class _Range:
    """Least, mean and most of what came."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value)
        self.count += 1
        self.total += value

    def summary(self) -> dict[str, float]:
        return {"min": self.least, "avg": self.total / self.count if self.count else 0, "max": self.most}


@dataclass
class CheckpointStatistics:
    """All that is known; only the newest ``history`` records are kept, and those of checkpoints that are running.

    :ivar wall: what time it is for people, given the coordinator's time
    """

    wall: Callable[[int], int] = int
    history: int = 10
    triggered: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0
    latest_completed: CheckpointStats | None = None
    latest_failed: CheckpointStats | None = None
    latest_savepoint: CheckpointStats | None = None
    latest_restore: RestoreStats | None = None
    _running: dict[int, CheckpointStats] = field(default_factory=dict)
    _ahead: dict[int, int] = field(default_factory=dict)
    _ended: deque[CheckpointStats] = field(default_factory=deque)
    _ranges: dict[str, _Range] = field(default_factory=lambda: {"duration_ms": _Range(), "size": _Range()})

    @property
    def in_progress(self) -> int:
        """How many are running."""
        return len(self._running)

    def __iter__(self) -> Iterator[CheckpointStats]:
        """The records that are kept, newest first."""
        return iter(sorted([*self._running.values(), *self._ended], key=lambda stats: -stats.id))

    def get(self, id: int) -> CheckpointStats | None:
        """The record of a checkpoint, if it is still kept."""
        return next((stats for stats in self if stats.id == id), None)

    def summary(self) -> dict[str, dict[str, float]]:
        """Least, mean and most over the completed ones: ``{"duration_ms": {"min": …}, "size": …}``."""
        return {name: numbers.summary() for name, numbers in self._ranges.items()}

    # -- for the coordinator

    def begin(self, id: int, kind: CheckpointKind, now: int) -> None:
        self.triggered += 1
        triggered_at = self.wall(now)
        self._ahead[id] = triggered_at - now
        self._running[id] = CheckpointStats(id, kind, triggered_at)

    def take(self, id: int, step: int, in_flight: int | None, now: int) -> None:
        self._running[id] = replace(self._running[id], step=step, in_flight=in_flight, taken_at=now + self._ahead[id])

    def complete(self, id: int, now: int, size: int, full_size: int | None, path: str | None) -> None:
        ended_at = now + self._ahead.pop(id)
        stats = replace(
            self._running.pop(id),
            status=CheckpointStatus.COMPLETED,
            ended_at=ended_at,
            size=size,
            full_size=size if full_size is None else full_size,
            path=path,
        )
        self.completed += 1
        self._ranges["duration_ms"].add(ended_at - stats.triggered_at)
        self._ranges["size"].add(size)
        if stats.kind.is_savepoint:
            self.latest_savepoint = stats
        else:
            self.latest_completed = stats
        self._keep(stats)

    def fail(self, id: int, now: int, reason: FailureReason, message: str) -> None:
        ended, ended_at = CheckpointStatus.FAILED, now + self._ahead.pop(id)
        stats = replace(self._running.pop(id), status=ended, ended_at=ended_at, reason=reason, message=message)
        self.failed += 1
        self.latest_failed = stats
        self._keep(stats)

    def restore(self, id: int | None, now: int) -> None:
        self.restored += 1
        self.latest_restore = RestoreStats(id, self.wall(now))

    def discard(self, ids: tuple[int, ...]) -> None:
        self._ended = deque(replace(s, discarded=True) if s.id in ids else s for s in self._ended)

    def _keep(self, stats: CheckpointStats) -> None:
        self._ended.append(stats)
        while len(self._ended) > self.history:
            self._ended.popleft()
