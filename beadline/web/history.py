"""The archive of ended jobs: the last record of each, as a JSON file, so that pages and commands can show them later.

It is in ``history`` of the user's state directory, or where ``beadline.history.dir`` says, and keeps the newest jobs
(``beadline.history.retained-jobs``). A record has no secrets in it (:mod:`beadline.web.record`); only the user can read
the files nevertheless. This module is imported at the end of every job, so it imports nothing that takes long.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from pathlib import Path

from beadline.master.client import registry
from beadline.master.client.rest_settings import RestSettings
from beadline.master.job import JobMaster
from beadline.state.segments.files import local_path
from beadline.web.live import record_of
from beadline.web.record import JobRecord

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Archive:
    """Records of ended jobs in a folder, one file each."""

    def __init__(self, directory: Path, retained: int) -> None:
        self.directory = directory
        self._retained = retained
        self._lock = threading.Lock()
        self._read: dict[str, tuple[tuple[int, int], JobRecord]] = {}

    def __repr__(self) -> str:
        return f"<Archive {self.directory} with {len(self.ids())} jobs>"

    def keep(self, record: JobRecord) -> None:
        """Add a job, or replace its record, and let go of the oldest if there are too many."""
        if self._retained == 0:
            return
        registry.make_private(self.directory)
        registry.write_private(self._path(record.job_id), json.dumps(record.as_dict()).encode())
        for id in self.ids()[: -self._retained]:
            with contextlib.suppress(OSError):
                self._path(id).unlink()

    def ids(self) -> list[str]:
        """The jobs that there are, those first that ended first."""
        found = []
        for path in self.directory.glob("*.json"):
            with contextlib.suppress(OSError):  # another driver may remove it meanwhile
                if _ID.fullmatch(path.stem):
                    found.append((path.stat().st_mtime_ns, path.stem))
        return [id for _, id in sorted(found)]

    def get(self, job_id: str) -> JobRecord | None:
        """The record of a job; None if there is none, or it can't be read."""
        if _ID.fullmatch(job_id) is None:
            return None
        path = self._path(job_id)
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_size)
            with self._lock:
                known = self._read.get(job_id)
                if known is None or known[0] != version:
                    self._read = {id: read for id, read in self._read.items() if self._path(id).exists()}
                    known = self._read[job_id] = (version, JobRecord.from_dict(json.loads(path.read_bytes())))
            return known[1]
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def _path(self, job_id: str) -> Path:
        return self.directory / f"{job_id}.json"


def archive_of(settings: RestSettings) -> Archive:
    """The archive that jobs with these settings go to."""
    chosen = settings.history_directory
    local = local_path(chosen) if chosen else None
    return Archive(Path(local) if local else registry.state_directory() / "history", settings.history_jobs)


def keep(master: JobMaster) -> None:
    """A job has ended: archive it."""
    archive_of(master.job.settings.rest).keep(record_of(master, fresh=True))
