"""A driver that stops itself at a chosen moment of publishing its second checkpoint, as if its machine had frozen."""

from __future__ import annotations

import os
import signal
import sys

from beadline.checkpoint.ownership.lease import Fenced
from tests.checkpoint.snapshots import make_snapshot, take_over
from tests.checkpoint.storage.writing import say


def freeze(where: str) -> None:
    say("frozen", where)
    os.kill(os.getpid(), signal.SIGSTOP)


def main(directory: str, moment: str) -> None:
    storage = take_over(directory, "the old driver")
    shared = storage.state_folder(1, one_machine=True)
    storage.write(make_snapshot(1, shared))
    say("completed", 1)
    rename = os.rename

    def slow_rename(source: str, target: str) -> None:
        if moment == "before the rename":
            freeze(moment)
        rename(source, target)
        if moment == "after the rename":
            freeze(moment)

    os.rename = slow_rename
    if moment == "before writing":
        freeze(moment)
    try:
        storage.write(make_snapshot(2, shared))
        say("completed", 2)
    except Fenced as fenced:
        say("fenced", fenced.epoch, fenced.by_epoch, fenced.by)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
