"""A process that writes checkpoints until it is killed. It says each one that has completed."""

from __future__ import annotations

import sys

from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.storage.registry import SharedFiles
from tests.checkpoint.snapshots import make_snapshot, take_over


def say(*words: object) -> None:
    print(*words, flush=True)


def write_on(directory: str, owner: str, retained: int) -> None:
    """Take over the job and write checkpoint after checkpoint, keeping the newest ones."""
    storage = take_over(directory, owner, inline_threshold=100)
    storage.delete(storage.orphans())
    kept = [listed.snapshot for listed in reversed(storage.completed()) if listed.snapshot is not None]
    shared = storage.state_folder(1, one_machine=True)
    registry = SharedFiles([storage.owned_folder()])
    for snapshot in kept:
        registry.register(snapshot.checkpoint_id, snapshot.files())
    number = storage.highest_number()
    say("epoch", storage.epoch)
    while True:
        number += 1
        snapshot = make_snapshot(number, shared, segments=3, inline=b"x" * 200 + str(number).encode())
        registry.register(number, snapshot.files())
        try:
            stored = storage.write(snapshot)
        except Fenced as fenced:
            say("fenced", fenced.by)
            return
        say("completed", number)
        registry.register(number, stored.snapshot.files())
        kept.append(stored.snapshot)
        for old in kept[:-retained]:
            storage.discard(f"{storage.folder}/chk-{old.checkpoint_id}")
            storage.delete(registry.release(old.checkpoint_id))
        del kept[:-retained]


if __name__ == "__main__":
    write_on(sys.argv[1], sys.argv[2], int(sys.argv[3]))
