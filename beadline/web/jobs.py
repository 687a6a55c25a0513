"""The jobs that a server answers for: those of its process, or those of an archive."""

from __future__ import annotations

import re
from typing import Protocol

import xxhash

from beadline.master.client.presence import Door
from beadline.master.job import JobMaster
from beadline.web.history import Archive, archive_of
from beadline.web.live import record_of
from beadline.web.lost import archive_lost_jobs
from beadline.web.record import JobRecord

_HEX = re.compile(r"[0-9a-f]{32}")


class Jobs(Protocol):
    """Gives records of jobs, and the masters of those that run."""

    @property
    def is_history(self) -> bool:
        """Whether they have all ended, elsewhere."""
        ...

    def all(self) -> list[JobRecord]:
        """Oldest first."""
        ...

    def get(self, job_id: str) -> JobRecord | None: ...

    def master(self, job_id: str) -> JobMaster | None:
        """What runs the job, if it runs in this process."""
        ...


def flink_id(job_id: str) -> str:
    """The id of a job in Flink's form, 32 hexadecimal digits: its own, unless the user chose a name as its id. Answers
    on Flink's paths have this one, and paths may have either."""
    return job_id if _HEX.fullmatch(job_id) else xxhash.xxh3_128_hexdigest(job_id.encode())


class DriverJobs:
    """The jobs of this process: those that run, and those that have ended since it began."""

    is_history = False

    def __init__(self, door: Door) -> None:
        self._door = door
        self._archive = archive_of(door.settings)

    def all(self) -> list[JobRecord]:
        running = dict(self._door.jobs)
        ended = [record for id in self._door.ended if id not in running and (record := self._archive.get(id))]
        return [*ended, *(record_of(master) for master in running.values())]

    def get(self, job_id: str) -> JobRecord | None:
        master = self.master(job_id)
        if master is not None:
            return record_of(master)
        ended = next((id for id in self._door.ended if job_id in (id, flink_id(id))), None)
        return None if ended is None else self._archive.get(ended)

    def master(self, job_id: str) -> JobMaster | None:
        running = dict(self._door.jobs)
        return running.get(job_id) or next((running[id] for id in running if flink_id(id) == job_id), None)


class ArchivedJobs:
    """Jobs that have ended, from an archive. Those whose drivers were killed come into it when all are asked for."""

    is_history = True

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def all(self) -> list[JobRecord]:
        archive_lost_jobs()
        return [record for id in self._archive.ids() if (record := self._archive.get(id))]

    def get(self, job_id: str) -> JobRecord | None:
        id = next((id for id in self._archive.ids() if job_id in (id, flink_id(id))), None)
        return None if id is None else self._archive.get(id)

    def master(self, job_id: str) -> JobMaster | None:
        return None
