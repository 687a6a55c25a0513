"""A process that writes checkpoints until it is killed. It says each one that has completed."""

from __future__ import annotations

import sys

from beadline.checkpoint.lease import Fenced, Lease
from beadline.checkpoint.registry import SharedFiles
from beadline.checkpoint.storage import FileSystemCheckpointStorage
from tests.checkpoint.snapshots import make_snapshot

JOB = "a1b2c3d4"


def say(*words: object) -> None:
    print(*words, flush=True)


def write_on(directory: str, owner: str, retained: int) -> None:
    """Take over the job and write checkpoint after checkpoint, keeping the newest ones."""
    storage = FileSystemCheckpointStorage(directory, inline_threshold=100)
    lease = Lease.acquire(storage.job_folder(JOB), owner)
    storage.delete(storage.orphans(JOB))
    kept = [listed.snapshot for listed in reversed(storage.completed(JOB)) if listed.snapshot is not None]
    shared = storage.prepare(JOB, lease.epoch)
    registry = SharedFiles.rebuilt([storage.shared_folder(JOB)], kept)
    number = storage.highest_number(JOB)
    say("epoch", lease.epoch)
    while True:
        number += 1
        snapshot = make_snapshot(number, shared, runs=3, inline=b"x" * 200 + str(number).encode())
        registry.register(number, snapshot.files())
        try:
            stored = storage.write(snapshot, lease)
        except Fenced as fenced:
            say("fenced", fenced.by)
            return
        say("completed", number)
        registry.register(number, stored.snapshot.files())
        kept.append(stored.snapshot)
        for old in kept[:-retained]:
            storage.discard(f"{storage.job_folder(JOB)}/chk-{old.checkpoint_id}")
            storage.delete(registry.release(old.checkpoint_id))
        del kept[:-retained]


if __name__ == "__main__":
    write_on(sys.argv[1], sys.argv[2], int(sys.argv[3]))
