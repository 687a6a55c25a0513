"""Jobs that have ended, from the archive of this user. They answer as running ones do, but take no orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beadline.cli.client import RunningJob, find_job
from beadline.cli.output import NO_SUCH_JOB, CommandError

if TYPE_CHECKING:
    from beadline.web.record import JobRecord


@dataclass(frozen=True)
class EndedJob:
    """A job by its last record."""

    record: JobRecord

    @property
    def job_id(self) -> str:
        return self.record.job_id

    @property
    def name(self) -> str:
        return self.record.name

    def get(self, path: str = "") -> Any:
        """What the driver would answer on this path below ``/jobs/:jobid``."""
        from beadline.web.answers import NotFound, checkpoints, exceptions, jobs, own

        answers: dict[str, Callable[[JobRecord], Any]] = {
            "": jobs.details,
            "/plan": jobs.plan,
            "/checkpoints": checkpoints.statistics,
            "/exceptions": exceptions.history,
            "/beadline": own.job,
            "/beadline/config": own.config,
            "/beadline/vertices": own.vertices,
        }
        try:
            return answers[path](self.record)
        except NotFound as error:
            raise CommandError(str(error)) from None


def archive_directory() -> str | None:
    """The archive that is set for programs of the current directory; None for the user's own."""
    from beadline.common.configuration import Configuration
    from beadline.common.outer_options import read_config_file
    from beadline.master.client.rest_settings import Key

    return Configuration.from_dict(read_config_file(".")).get_string(Key.HISTORY_DIRECTORY, None)


def records() -> list[JobRecord]:
    """The last records of jobs that have ended, oldest first; also of those whose drivers were killed."""
    from beadline.master.client.rest_settings import RestSettings
    from beadline.web.history import archive_of
    from beadline.web.lost import archive_lost_jobs

    archive_lost_jobs()
    archive = archive_of(RestSettings(history_directory=archive_directory()))
    return [record for id in archive.ids() if (record := archive.get(id)) is not None]


def overview() -> list[dict[str, Any]]:
    """As ``/jobs/overview`` of a driver."""
    from beadline.web.answers import jobs

    found: list[dict[str, Any]] = jobs.overview(records())["jobs"]
    return found


def find_any(text: str, address: str | None = None) -> RunningJob | EndedJob:
    """A running job, or else one that has ended; of several with a name, the one that ended last."""
    try:
        return find_job(text, address)
    except CommandError as error:
        if error.code != NO_SUCH_JOB or address is not None or "may be any of" in str(error):
            raise
        ended = records()
        for found in (
            [each for each in ended if each.job_id == text],
            [each for each in ended if each.name == text][-1:],
            [each for each in ended if each.job_id.startswith(text)],
        ):
            if len(found) == 1:
                return EndedJob(found[0])
            if found:
                shown = "\n".join(f"  {each.job_id}  {each.name}" for each in found)
                message = f"{text!r} may be any of these jobs, which have ended; give more of the id:\n{shown}"
                raise CommandError(message, NO_SUCH_JOB) from None
        raise
