"""``beadline run -d``: a driver that nobody's terminal waits for.

1. The command starts the driver as a process of its own session, with its output in a log of the state directory, and
   hands it the writing end of a pipe. Secrets among the options go by the environment.
2. The driver tells on the pipe when its first job runs, or that it has failed before that. It is told what to do by
   environment variables, which its own children don't see.
3. The command repeats that to the user, and ends. If the pipe closes before anything was said, the driver has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from beadline.cli.output import FAILED, INTERRUPTED, fail, say
from beadline.master import life
from beadline.master.client import registry
from beadline.master.client.registry import DETACHED_VARIABLE, LOG_VARIABLE

if TYPE_CHECKING:
    from beadline.master.job import JobMaster
    from beadline.master.reporting.news import News, Watcher

_PIPE_VARIABLE = "BEADLINE_SUBMISSION_PIPE"
_SECRETS_VARIABLE = "BEADLINE_SUBMISSION_OPTIONS"
_LINES_OF_LOG = 15


def logs_directory() -> Path:
    """Where the output of detached drivers goes; only the user can read it."""
    registry.make_private(registry.state_directory())
    return registry.make_private(registry.state_directory() / "logs")


def submit(script: Path, flags: list[str], options: dict[str, str], words: list[str]) -> None:
    """Start a driver with these words of ``beadline run``, and wait until its job runs or has failed.
    Options that are secrets go by the environment: every user of the machine can read its command line."""
    from beadline.common.secrets import is_secret

    secret = {key: value for key, value in options.items() if is_secret(key)}
    arguments = [*flags, *(f"-D{key}={value}" for key, value in options.items() if key not in secret), "--", *words]
    log = logs_directory() / f"{script.stem}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    reader, writer = os.pipe()
    variables = {LOG_VARIABLE: str(log), DETACHED_VARIABLE: "1", _PIPE_VARIABLE: str(writer), "PYTHONUNBUFFERED": "1"}
    if secret:
        variables[_SECRETS_VARIABLE] = json.dumps(secret)
    with open(descriptor, "wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "beadline.cli.main", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
            pass_fds=(writer,),
            start_new_session=True,
        )
    os.close(writer)
    try:
        with open(reader, "rb") as pipe:
            told = pipe.readline()
    except KeyboardInterrupt:
        driver.terminate()
        say(f"The driver, process {driver.pid}, was told to end. Its log: {log}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if not told:
        _has_ended(driver.wait(), script, log)
        return
    news: dict[str, Any] = json.loads(told)
    if news["failed"]:
        driver.wait()
        _show_end_of(log)
        fail(f"job {news['job_id']} has failed: {news['failed']}\nIts log: {log}", FAILED)
    say(f"Job has been submitted with JobID {news['job_id']}")
    say(f"Its log: {log}", err=True)


def _has_ended(code: int, script: Path, log: Path) -> None:
    """The driver ended, and no job ever ran."""
    _show_end_of(log)
    if code == 0:
        say(f"{script} has ended and started no job. Its log: {log}", err=True)
        return
    fail(f"{script} has ended with exit code {code}, and no job runs. Its log: {log}", code if code > 0 else FAILED)


def _show_end_of(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()
    if len(lines) > _LINES_OF_LOG:
        say(f"… {len(lines) - _LINES_OF_LOG} more lines", err=True)
    for line in lines[-_LINES_OF_LOG:]:
        say(line, err=True)


# -- in the driver


def prepare_driver() -> dict[str, str]:
    """If this process is a detached driver: tell whoever started it of its first job, and name the log after each.
    Gives the options that were not to stand on the command line."""
    number = os.environ.pop(_PIPE_VARIABLE, None)
    secret = os.environ.pop(_SECRETS_VARIABLE, None)
    if number is None:
        return {}
    os.set_inheritable(int(number), False)
    life.followers.append(_Submission(int(number)).follow)
    return dict(json.loads(secret)) if secret else {}


class _Submission:
    """The driver's end of the pipe; closed once it has told of a job."""

    def __init__(self, pipe: int) -> None:
        self._pipe: int | None = pipe

    def follow(self, job: JobMaster) -> Watcher:
        _name_log_after(job.job_id)

        def watch(event: News) -> None:
            kind = type(event).__name__
            if kind == "ExecutionStarted":
                self._tell(job.job_id, None)
            elif kind == "StatusChanged" and getattr(event, "status", "") == "FAILED":
                self._tell(job.job_id, getattr(event, "reason", "") or "for no reason that is known")

        return watch

    def _tell(self, job_id: str, failed: str | None) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with contextlib.suppress(OSError), open(pipe, "wb") as stream:  # nobody may listen any more
                stream.write(json.dumps({"job_id": job_id, "failed": failed}).encode() + b"\n")


def _name_log_after(job_id: str) -> None:
    """``logs/<job id>.log`` leads to the driver's log, also when the job has ended."""
    log = os.environ.get(LOG_VARIABLE)
    if log:
        link = Path(log).parent / f"{job_id}.log"
        with contextlib.suppress(OSError):
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.basename(log))
