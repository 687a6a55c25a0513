"""The receiving end of an exchange: checks the channels of a task, and keeps the watermark of an operator.

Nothing is taken on trust. A channel's chunks must come in sequence, and its barrier must carry the same count and
digest as what was read; otherwise the task raises :class:`ChannelError`, Spark sees a failed task, and the step is
never sealed from it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import xxhash

from beadline.errors import ChannelError
from beadline.runtime.exchange.rows import BROADCAST_SEQ, WireRow

MIN_WATERMARK = -(1 << 63)
MAX_WATERMARK = (1 << 63) - 1


class ChannelCheck:
    """Counts and digests one channel of one step."""

    __slots__ = ("_count", "_digest", "_next", "ended", "name")

    def __init__(self, name: str, broadcast: bool) -> None:
        self.name = name
        self._next = BROADCAST_SEQ if broadcast else 0
        self._count = 0
        self._digest = xxhash.xxh3_128()
        self.ended = False

    def chunk(self, row: WireRow) -> list[Any]:
        if self.ended:
            raise ChannelError(f"{self.name}: chunk {row.seq} came after the barrier")
        if row.seq != self._next:
            raise ChannelError(f"{self.name}: expected chunk {self._next}, got {row.seq}")
        self._next += 1
        self._digest.update(row.payload)
        elements: list[Any] = pickle.loads(row.payload)
        self._count += sum(len(element[0]) for element in elements if element.__class__ is tuple)
        return elements

    def barrier(self, seq: int, count: int, digest: str) -> None:
        if self.ended:
            raise ChannelError(f"{self.name}: a second barrier came")
        if (seq, count, digest) != (self._next, self._count, self._digest.hexdigest()):
            raise ChannelError(
                f"{self.name}: the barrier says {seq} chunks, {count} records, digest {digest}; "
                f"but {self._next}, {self._count}, {self._digest.hexdigest()} were read"
            )
        self.ended = True


class WatermarkGate:
    """The watermark of an operator: the minimum over its active channels, as Flink keeps it. Each step has a new
    one, which goes on from the snapshot of the last."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._watermarks = dict.fromkeys(channels, MIN_WATERMARK)
        self._idle: set[int] = set()
        self.current = MIN_WATERMARK
        self.idle = False

    def advance(self, channel: int, watermark: int) -> int | None:
        """The operator's new watermark, if it moved."""
        self._idle.discard(channel)
        if watermark > self._watermarks[channel]:
            self._watermarks[channel] = watermark
        return self._recompute()

    def mark_idle(self, channel: int) -> int | None:
        if channel in self._idle:
            return None
        self._idle.add(channel)
        if len(self._idle) == len(self._watermarks) and self._watermarks[channel] == self.current:
            # The last one: none will move on, so the furthest counts, in whatever order they fell idle.
            self.idle = True
            return self._move(max(self._watermarks.values()))
        return self._recompute()

    def mark_active(self, channel: int) -> None:
        """The watermark stays: it moves when a channel moves, and then everybody hears of it."""
        self._idle.discard(channel)
        self.idle = len(self._idle) == len(self._watermarks)

    def _recompute(self) -> int | None:
        self.idle = len(self._idle) == len(self._watermarks)
        if self.idle:
            return None
        # A channel that was idle while the others moved on counts again when it has caught up.
        caught_up = [w for c, w in self._watermarks.items() if c not in self._idle and w >= self.current]
        return self._move(min(caught_up, default=self.current))

    def _move(self, watermark: int) -> int | None:
        if watermark <= self.current:
            return None
        self.current = watermark
        return watermark

    def snapshot(self) -> tuple[dict[int, int], list[int], int]:
        return dict(self._watermarks), sorted(self._idle), self.current

    def restore(self, snapshot: tuple[dict[int, int], list[int], int]) -> None:
        watermarks, idle, self.current = snapshot
        self._watermarks.update((c, w) for c, w in watermarks.items() if c in self._watermarks)
        self._idle = {c for c in idle if c in self._watermarks}
        self.idle = bool(self._watermarks) and len(self._idle) == len(self._watermarks)
