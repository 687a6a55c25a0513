"""When a part is full."""

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
