"""Whether the driver that holds a job is alive.

Fencing does not ask this: a driver that takes over is safe from the former one in any case. ``-s latest``, claiming and
disposing ask, because they must not take a job from a driver that works. A driver on this machine is alive if its
process is. A driver elsewhere is watched: its beat moves every five seconds. If the beat stands still for longer than
two beats, the driver is taken for dead; if it was only paused, it finds itself fenced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from beadline.checkpoint.ownership.lease import beat_path, is_held_here, newest_claim, note_of
from beadline.checkpoint.ownership.process import EVERY_SECONDS, Process, read_beat, this_process

_LOG = logging.getLogger("beadline")

#: How long a beat may stand still.
PATIENCE_SECONDS = 2 * EVERY_SECONDS + 2
_LOOK_EVERY_SECONDS = 1.0

Pause = Callable[[float], None]


@dataclass(frozen=True)
class Holder:
    """The driver that took the lease of a job last. ``ended``: it said so; ``process``: None if its note has none."""

    folder: str
    epoch: int
    owner: str
    since: str
    ended: bool
    process: Process | None
    token: str

    def __str__(self) -> str:
        return f"{self.owner} since {self.since}"

    def is_alive(self, here: Process | None = None) -> bool | None:
        """None if it is elsewhere, so that it has to be watched."""
        if self.ended:
            return False
        here = here or this_process()
        if self.process is None:
            return None
        if self.process == here:
            return is_held_here(self.token)
        return self.process.is_running(here)


def last_holder(folder: str) -> Holder | None:
    """The driver, dead or alive, that last took the lease of the job in a folder."""
    claim = newest_claim(folder)
    if claim is None:
        return None
    note = note_of(folder, claim.name)
    return Holder(
        folder,
        claim.epoch,
        str(note["owner"]),
        str(note["since"]),
        bool(note.get("ended")),
        Process.from_json(note.get("process")),
        str(note.get("token", "")),
    )


def holder_of(folder: str, here: Process | None = None, pause: Pause = time.sleep) -> Holder | None:
    """The driver that runs the job in a folder; None if there is none, or it is dead.

    1. one that said it has ended has ended
    2. one on this machine is alive if its process is
    3. one elsewhere is alive if its beat moves
    """
    holder = last_holder(folder)
    if holder is None:
        return None
    alive = holder.is_alive(here)
    if alive is None:
        alive = _moves(holder, pause)
    return holder if alive else None


def _moves(holder: Holder, pause: Pause) -> bool:
    path = beat_path(holder.folder, holder.epoch)
    before = read_beat(path)
    _LOG.info(
        "the job in %s was last run by %s, on another machine or in another container: watching for up to %d s whether "
        "that driver is alive",
        holder.folder,
        holder,
        PATIENCE_SECONDS,
    )
    waited = 0.0
    while waited < PATIENCE_SECONDS:
        pause(_LOOK_EVERY_SECONDS)
        waited += _LOOK_EVERY_SECONDS
        if read_beat(path) != before:
            return True
    return False
