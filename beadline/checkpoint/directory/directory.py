"""A directory that jobs share for their checkpoints: which jobs are there, and in which folder each is."""

from __future__ import annotations

from beadline.checkpoint.directory.jobs import Job, job_in
from beadline.checkpoint.directory.lookup import Listed, canonical, list_job
from beadline.checkpoint.disk_errors import explained
from beadline.state.segments.files import entries_of, join


class CheckpointDirectory:
    """Where jobs keep their checkpoints: a local path or any URI that ``pyarrow.fs`` knows.

    :param create_subdir: whether each job has a folder of its own; without it only one job can use the directory
    :ivar path: in its one spelling
    """

    def __init__(self, path: str, create_subdir: bool = True) -> None:
        self.path = canonical(path)
        self._create_subdir = create_subdir

    def __repr__(self) -> str:
        return f"<CheckpointDirectory {self.path}>"

    def job_folder(self, job_id: str) -> str:
        """The folder of a job; its lease is there too."""
        return join(self.path, job_id) if self._create_subdir else self.path

    def job_folders(self) -> list[tuple[str, str | None]]:
        """Where jobs may be, with their ids where the folder tells."""
        if not self._create_subdir:
            return [(self.path, None)]
        entries = (entry for entry in entries_of(self.path) if entry.folder)
        return [(join(self.path, entry.name), entry.name) for entry in entries]

    def jobs(self) -> list[Job]:
        """The jobs in the directory that have a checkpoint or have finished."""
        with explained(f"can't look for jobs in {self.path}"):
            found = [job_in(folder, job_id) for folder, job_id in self.job_folders()]
        return [job for job in found if job is not None]

    def completed(self, job_id: str) -> list[Listed]:
        """The completed checkpoints of a job that count, newest first."""
        found = list_job(self.job_folder(job_id))
        return [listed for listed in found if listed.snapshot is None or listed.snapshot.job_id == job_id]
