"""Checkpoints and savepoints of running jobs: ``beadline savepoint JOB [DIR]`` and ``beadline checkpoint JOB``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from beadline.cli.client import Address, Job, RefusedError, RunningJob, UnreachableError, find_job
from beadline.cli.output import FAILED, NO_SUCH_JOB, AsJson, CommandError, problems_told, say, show_json

_FORMATS = ("canonical", "native")
_NO_DIRECTORY = "execution.checkpointing.savepoint-dir"


def _checked_format(value: str) -> str:
    if value.lower() not in _FORMATS:
        raise typer.BadParameter(f"{value!r} is no format of savepoints: it must be {' or '.join(_FORMATS)}.")
    return value.lower()


SavepointFormat: TypeAlias = Annotated[
    str,
    typer.Option(
        "--type",
        "-type",
        metavar="FORMAT",
        callback=_checked_format,
        help="Of the savepoint: canonical (tables that any tool can read) or native (faster).",
    ),
]
Yarn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-yid",
        "--yarnapplicationId",
        metavar="APPLICATION",
        help="The application of YARN, or of Spark elsewhere, that the job must run in. Not needed to find it.",
    ),
]


def trigger(
    job: Job,
    directory: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR]",
            help="Where it goes; without it to execution.checkpointing.savepoint-dir.",
            show_default=False,
        ),
    ] = None,
    format: SavepointFormat = "canonical",
    detached: Annotated[bool, typer.Option("--detached", "-dcp", help="Don't wait for it to be written.")] = False,
    address: Address = None,
    as_json: AsJson = False,
    yarn: Yarn = None,
) -> None:
    """Take a savepoint of a running job. The job goes on."""
    with problems_told("The savepoint goes on being written."):
        found = find_job_in(yarn, job, address)
        if not as_json:
            say(f"Triggering savepoint for job {found.job_id}.")
        if detached:
            request = found.savepoint(absolute(directory), format.upper())
            if as_json:
                show_json({"job_id": found.job_id, "request_id": request})
            else:
                say(f"Successfully triggered manual savepoint, request {request}.")
            return
        path = take_savepoint(found, directory, format)
    if as_json:
        show_json({"job_id": found.job_id, "savepoint": path})
        return
    say(f"Savepoint completed. Path: {path}")
    say("You can resume your program from this savepoint with the run command.")


def checkpoint(
    job: Job,
    full: Annotated[
        bool, typer.Option("--full", "-full", help="Write all state again, not only what has changed.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of a running job now."""
    type = "FULL" if full else "CONFIGURED"
    with problems_told("The checkpoint goes on being written."):
        found = find_job(job, address)
        if not as_json:
            say(f"Triggering checkpoint for job {found.job_id}.")
        outcome = found.outcome("checkpoints", found.checkpoint(type))
    if as_json:
        show_json({"job_id": found.job_id, "checkpoint": outcome.get("checkpointId"), "type": type})
        return
    say(f"Checkpoint({type}) {outcome.get('checkpointId')} for job {found.job_id} completed.")
    say("You can resume your program from this checkpoint with the run command.")


# -- for this and other commands


def find_job_in(application: str | None, job: str, address: str | None = None) -> RunningJob:
    """The job, for a command that may change it. Flink finds a job on YARN through its application. Here the id is
    enough, and an application that was named as well must be the one that the job runs in."""
    found = find_job(job, address)
    if application is not None:
        actual = found.get("/beadline").get("application")
        if actual != application:
            where = f"runs in {actual}" if actual else "runs without Spark, and so in no application"
            raise CommandError(
                f"job {found.job_id} {where}, and not in {application}: nothing was done. Correct -yid, or leave it "
                "out: the id of a job is enough to find it.",
                NO_SUCH_JOB,
            )
    return found


def take_savepoint(job: RunningJob, directory: str | None, format: str, cancel: bool = False) -> str:
    """Take a savepoint, wait until it is written, and give its path; ``cancel``: the job ends then."""
    with _directory_told():
        request = job.savepoint(absolute(directory), format.upper(), cancel)
    return _path(job, request, absolute(directory), ends=cancel)


def stop_with_savepoint(job: RunningJob, directory: str | None, format: str, drain: bool) -> str:
    """Stop the job with a savepoint, and give its path."""
    with _directory_told():
        request = job.stop(absolute(directory), format.upper(), drain)
    return _path(job, request, absolute(directory), ends=True)


@contextmanager
def _directory_told() -> Iterator[None]:
    """Flink's sentence about a directory that is missing is for those who wrote the request by hand."""
    try:
        yield
    except RefusedError as error:
        if f"[{_NO_DIRECTORY}] is not set" not in str(error):  # others name the option too
            raise
        raise CommandError(
            f"a savepoint needs a directory: name one in the command, or start the job with -D {_NO_DIRECTORY}=DIR"
        ) from None


def absolute(directory: str | None) -> str | None:
    """A relative path means a folder here, and not where the driver was started."""
    if directory is None or re.match(r"[A-Za-z][\w+.-]*:/", directory):
        return directory
    return os.path.abspath(directory)


def _path(job: RunningJob, request: str, directory: str | None, ends: bool) -> str:
    try:
        return str(job.outcome("savepoints", request)["location"])
    except UnreachableError as error:
        if not ends or job.entry is None or job.entry.is_alive:
            raise
        where = directory or "the default directory of savepoints"
        raise CommandError(
            f"the driver of job {job.job_id} has ended before it could tell where the savepoint is. Look for the "
            f"newest in {where}, and check it with: beadline savepoint show PATH",
            FAILED,
        ) from error
