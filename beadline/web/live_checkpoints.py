"""The checkpoints of a running job, for its record."""

from __future__ import annotations

from beadline.checkpoint.coordinator.statistics import CheckpointStats
from beadline.common.secrets import without_passwords
from beadline.master.job import JobMaster
from beadline.web.live_plan import vertex_id
from beadline.web.record import Checkpoint, CheckpointCounts, OperatorState


class Kept:
    """Records of checkpoints that do not change any more: there may be a thousand, and they are made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[CheckpointStats, Checkpoint]] = {}

    def of(self, master: JobMaster) -> tuple[list[Checkpoint], CheckpointCounts]:
        """The checkpoints of a job, newest first, and how many there were."""
        made = {}
        for stats in master.checkpoint_statistics:
            known = self._made.get(stats.id)
            made[stats.id] = known if known is not None and known[0] is stats else (stats, checkpoint_of(stats))
        self._made = made
        counts = CheckpointCounts(*master.chronicle.counts)
        if master.running is not None:
            told = master.running.checkpoints.coordinator.statistics
            counts = CheckpointCounts(told.triggered, told.completed, told.failed)
        return [checkpoint for _, checkpoint in made.values()], counts


def checkpoint_of(stats: CheckpointStats) -> Checkpoint:
    return Checkpoint(
        stats.id,
        stats.type,
        stats.status.name,
        stats.kind.is_savepoint,
        stats.triggered_at,
        stats.taken_at,
        stats.ended_at,
        stats.step,
        stats.size,
        stats.full_size,
        stats.in_flight,
        stats.path,
        None if stats.reason is None else stats.reason.name,
        None if stats.failure is None else without_passwords(stats.failure),
        stats.discarded,
        stats.format,
        [OperatorState(vertex_id(each.uid), list(each.sizes), list(each.written)) for each in stats.operators],
    )
