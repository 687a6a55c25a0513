"""What a job restored in claim mode owns: the files that the snapshot names and nobody else needs."""

from __future__ import annotations

from collections.abc import Iterable

from beadline.checkpoint.cleanup.removal import is_state_file
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.lookup import folder_of, list_job
from beadline.checkpoint.ownership.holder import holder_of
from beadline.state.segments.files import parent


def check_claimable(pointer: str, snapshot: Snapshot) -> None:
    """Refuse to claim the checkpoint of a job that still runs: it goes on using and removing its files."""
    if snapshot.kind is not SnapshotKind.CHECKPOINT:
        return
    folder = folder_of(pointer)
    holder = holder_of(parent(folder))
    if holder is not None:
        raise SnapshotError(
            f"{folder} can't be claimed: its job still runs (its driver: {holder}). Cancel that job first, or restore "
            "with execution.state-recovery.claim-mode NO_CLAIM"
        )


def claimable(files: Iterable[str], claimed: str | None = None) -> frozenset[str]:
    """The files that may be deleted when this job no longer needs them.

    Only those with names that Beadline makes; and of a folder that checkpoints of another job share, only those that
    none of them needs.

    :param claimed: the folder of the claimed snapshot, which needs its files no longer than this job does
    """
    by_job: dict[str, set[str]] = {}
    for path in files:
        if is_state_file(path):
            job, shared, _ = path.partition(f"/{metadata.SHARED}/")
            by_job.setdefault(job if shared else "", set()).add(path)
    own = by_job.pop("", set())
    for job, shared_files in by_job.items():
        others = [entry for entry in list_job(job) if entry.pointer != claimed]
        if all(entry.snapshot is not None for entry in others):
            own |= shared_files.difference(*(entry.snapshot.files() for entry in others if entry.snapshot is not None))
    return frozenset(own)
