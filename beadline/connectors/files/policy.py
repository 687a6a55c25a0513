"""When a part is full, and when several become one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RollingPolicy:
    """By size, age and inactivity. ``on_checkpoint`` leaves it to checkpoints and the end of the job alone."""

    part_size: int = 128 << 20
    rollover_ms: int = 60_000
    inactivity_ms: int = 60_000
    on_checkpoint: bool = False

    def is_full(self, size: int, age_ms: int, idle_ms: int, at_checkpoint: bool) -> bool:
        if self.on_checkpoint:
            return at_checkpoint
        return size >= self.part_size or age_ms >= self.rollover_ms or idle_ms >= self.inactivity_ms


@dataclass(frozen=True)
class Compaction:
    """Parts of a bucket that are full wait until they are large or old enough, and appear as one file.

    :ivar size: how many bytes they must have together; None if that does not count
    :ivar checkpoints: how many checkpoints they wait at most; None if that does not count
    :ivar merge: whether they become one file; else each becomes one, as late
    :ivar delimiter: what comes between the contents of two
    """

    size: int | None = None
    checkpoints: int | None = None
    merge: bool = True
    delimiter: bytes = b""

    def is_due(self, size: int, checkpoints: int) -> bool:
        large = self.size is not None and size >= self.size
        return large or (self.checkpoints is not None and checkpoints >= self.checkpoints)
