"""Whose output is whose: the drivers that a job has had, and how what they wrote is told apart.

What a driver publishes outside of the job's folder, in a folder of files or a database, stays there when the job's
folder is removed, copied or used again. So an epoch, which only counts within one folder, can't name it. Two things do:

- a *lineage* is a job from its beginning through all drivers that go on from its own checkpoints in its own folder. It
  has a random name. A job that begins from nothing, from a savepoint, or from a checkpoint of another job begins a
  lineage
- each driver has a random name too, so that nothing is named twice even where nobody can tell a copy of a folder from
  the folder.

Each driver leaves a record in the job's folder, ``driver-<epoch>``: its names, and where its sinks write. It is there
before anything is staged or published. Whoever goes back to a checkpoint takes back what the drivers of its own lineage
published since, which are those with records, and nothing else.

A folder that was copied, or put back from a backup, says the same as the original, whose driver may still run, and
publish. Nobody may take that back or tidy it up. So the record also says which folder it was written in, by the number
that the file system gave it, and a driver that finds itself in another one begins a lineage. Where such numbers mean
nothing (object stores, FUSE) the path has to do.

Drivers of versions that left no records are *nameless*: they named output by the job's id and their epoch.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from beadline.checkpoint.contents.snapshot import Snapshot, explained
from beadline.checkpoint.ownership.lease import claims_in
from beadline.state.segments import files

_LOG = logging.getLogger("beadline")

_RECORD = re.compile(r"driver-(\d{1,9})")
# File systems that may number a folder differently whenever they are asked.
_UNNUMBERED = re.compile(r"fuse.*|9p|cifs|smb3|vfat|exfat")


@dataclass(frozen=True)
class Place:
    """A folder: how it is reached, and what the file system calls it; empty where that means nothing."""

    path: str
    number: str = ""

    @classmethod
    def of(cls, folder: str) -> Place:
        local = files.local_path(folder)
        if local is None:
            return cls(folder.partition("?")[0])
        local = os.path.realpath(local)
        if _UNNUMBERED.fullmatch(_file_system(local)):
            return cls(local)
        return cls(local, f"{os.statvfs(local).f_fsid:x}-{os.stat(local).st_ino}")

    def is_now(self, other: Place) -> bool:
        """Whether it is the same folder, perhaps moved. If there is something at the old path, one of the two is a
        copy, and nobody knows which."""
        if not (self.number and other.number):
            return self.path == other.path
        if self.number != other.number:
            return False
        return self.path == other.path or not os.path.exists(self.path) or os.path.samefile(self.path, other.path)


@dataclass(frozen=True)
class DriverRecord:
    """A driver, as its output is named.

    :ivar name: random
    :ivar lineage: the name of that
    :ivar alone_since: the epoch of the first driver that had the folder when it was this one, and no copy of it
    :ivar nameless: up to which epoch drivers left no records
    :ivar adopted: whether nameless drivers belong to the lineage
    :ivar outputs: what its sinks say of where they write, by uid
    """

    epoch: int
    name: str
    lineage: str
    place: Place = field(default_factory=lambda: Place(""))
    alone_since: int = 0
    nameless: int = 0
    adopted: bool = False
    outputs: Mapping[str, Any] = field(default_factory=dict)


class Lineage:
    """The lineage of a driver.

    :ivar driver: itself
    :ivar former: earlier drivers of its folder, also of lineages that have ended there
    """

    def __init__(self, driver: DriverRecord, former: tuple[DriverRecord, ...] = ()) -> None:
        self.driver = driver
        self.former = former

    def __repr__(self) -> str:
        return f"<Lineage {self.name[:8]}, driver {self.driver.name} after {len(self.former)} others>"

    @property
    def name(self) -> str:
        return self.driver.lineage

    @classmethod
    def alone(cls) -> Lineage:
        """Of a driver that nobody comes after."""
        return cls(DriverRecord(0, "", uuid.uuid4().hex))

    @classmethod
    def of_driver(cls, folder: str, epoch: int, is_new: bool) -> Lineage:
        """Of the driver that has just taken a job's folder.

        :param is_new: it does not go on from a checkpoint of that folder
        """
        with explained(f"can't look for earlier drivers of the job in {folder}"):
            known = records_in(folder, epoch)
            place = Place.of(folder)
            name = secrets.token_hex(4)
            if not known:
                nameless = max((claim.epoch for claim in claims_in(folder) if claim.epoch < epoch), default=0)
                adopted = nameless > 0 and not is_new
                return cls(DriverRecord(epoch, name, uuid.uuid4().hex, place, 0, nameless, adopted))
        last = known[-1]
        if not last.place.is_now(place):
            if not is_new:
                _LOG.warning(
                    "%s is not the folder in which the last driver of the job ran, which was %s: it is a copy, or a "
                    "backup. The job goes on as one of its own. Output that was published after the checkpoint stays, "
                    "also output of this job, because the other folder's may still run: remove it by hand if its rows "
                    "come again",
                    folder,
                    last.place.path,
                )
            return cls(DriverRecord(epoch, name, uuid.uuid4().hex, place, epoch))
        lineage, adopted = (uuid.uuid4().hex, False) if is_new else (last.lineage, last.adopted)
        driver = DriverRecord(epoch, name, lineage, place, last.alone_since, last.nameless, adopted)
        return cls(driver, tuple(record for record in known if record.epoch >= last.alone_since))

    def has_taken(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot was taken by a driver of this lineage."""
        if not snapshot.lineage:
            return self.driver.adopted
        return snapshot.lineage == self.name

    def note(self, folder: str, outputs: Mapping[str, Any]) -> None:
        """Leave the record of this driver. Call it before anything is staged."""
        record = {**asdict(self.driver), "outputs": outputs}
        with explained(f"can't note in {folder} where the job writes"):
            path = files.join(folder, f"driver-{self.driver.epoch}")
            files.write_file(path, json.dumps(record, indent=1).encode() + b"\n", durable=True)
            files.sync(folder)


def records_in(folder: str, before: int) -> list[DriverRecord]:
    """The drivers of a folder up to an epoch, oldest first."""
    matches = (_RECORD.fullmatch(entry.name) for entry in files.entries_of(folder))
    found = sorted((int(match[1]), match[0]) for match in matches if match)
    records = (_read(files.join(folder, name)) for epoch, name in found if epoch < before)
    return [record for record in records if record is not None]


def _read(path: str) -> DriverRecord | None:
    try:
        read = json.loads(files.read_file(path))
        read["place"] = Place(**read["place"])
        return DriverRecord(**read)
    except (ValueError, KeyError, TypeError) as error:
        _LOG.warning(
            "%s is damaged (%s): what that driver published will not be taken back if the job goes back to an older "
            "checkpoint",
            path,
            error,
        )
        return None


def _file_system(path: str) -> str:
    """What kind of file system has a path; empty where nobody can tell."""
    kind, longest = "", -1
    try:
        with open("/proc/self/mountinfo") as mounts:
            for line in mounts:
                before, _, after = line.partition(" - ")
                point = before.split()[4].encode().decode("unicode_escape")
                if len(point) >= longest and os.path.commonpath([path, point]) == point:
                    kind, longest = after.split()[0], len(point)
    except (OSError, IndexError, ValueError):
        pass
    return kind
