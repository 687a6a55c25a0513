"""``beadline list``, ``status``, ``cancel`` and ``stop``: running jobs, seen and ended from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from beadline.cli.client import (
    Address,
    Driver,
    Job,
    RefusedError,
    RunningJob,
    UnreachableError,
    driver_at,
    drivers,
)
from beadline.cli.ended import EndedJob, find_any
from beadline.cli.output import (
    AsJson,
    CommandError,
    console,
    duration,
    fail,
    moment,
    number,
    plain,
    problems_told,
    say,
    show_json,
    size,
    table,
    watermark,
)
from beadline.cli.triggering import SavepointFormat, Yarn, find_job_in, take_savepoint
from beadline.shown_text import printable_line

_SCHEDULED = frozenset({"CREATED", "INITIALIZING"})
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED", "SUSPENDED"})
_COLOURS = {"RUNNING": "green", "RESTARTING": "yellow", "FAILING": "red", "FAILED": "red", "UNREACHABLE": "red"}
# How long one driver may keep the list of all jobs waiting.
_LIST_SECONDS = 5.0
# How long a cancelled job may take to end before the command says so.
_CANCEL_SECONDS = 60.0


def list_jobs(
    running: Annotated[bool, typer.Option("-r", "--running", help="Only jobs that run.")] = False,
    scheduled: Annotated[bool, typer.Option("-s", "--scheduled", help="Only jobs that have not begun.")] = False,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Also jobs that have ended.")] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List jobs: those that run or are about to, unless told otherwise."""
    with problems_told():
        found = list(
            _reachable([(driver_at(address), [])] if address is not None else drivers(_LIST_SECONDS), address is None)
        )
        if everything and address is None:
            found = [*found, *_ended_elsewhere({job["jid"] for job in found})]
    wanted = [job for job in found if everything or _is_wanted(job["state"], running, scheduled)]
    wanted.sort(key=lambda job: job["start-time"])
    if as_json:
        for job in wanted:
            if "page" in job:
                job["dashboard"] = job.pop("page").partition("#")[0]
        show_json({"jobs": wanted})
        return
    if not wanted:
        say("No scheduled jobs." if scheduled and not running else "No jobs." if everything else "No running jobs.")
        return
    right = ("up", "records/s", "lag", "state", "restarts")
    shown = table("job id", "name", "status", "started (UTC)", *right, right=right)
    for job in wanted:
        colour = _COLOURS.get(job["state"], "default")
        own = job.get("beadline") or {}
        shown.add_row(
            job["jid"],
            plain(job["name"]),
            f"[{colour}]{job['state']}[/{colour}]",
            moment(job["start-time"]),
            duration(job.get("duration")),
            number(own.get("records_per_second")),
            number(own.get("lag")),
            size(own.get("state_bytes")),
            number(own.get("restarts")),
        )
    out = console()
    out.print(shown)
    pages: dict[str, list[str]] = {}  # jobs of one process share theirs
    for job in wanted:
        if "page" in job:
            pages.setdefault(job["page"], []).append(printable_line(job["name"]))
    for page, names in pages.items():
        # The token is for the one at the terminal: what is written elsewhere is read by others.
        shown_page = page if out.is_terminal else page.partition("#")[0]
        say(f"dashboard of {', '.join(names)}: {shown_page}")


def _is_wanted(state: str, running: bool, scheduled: bool) -> bool:
    if state in _ENDED:
        return False
    both = running == scheduled  # neither was given, or both
    return both or (state in _SCHEDULED) == scheduled


def _reachable(found: list[tuple[Driver, list[Any]]], here: bool) -> Iterator[dict[str, Any]]:
    """The jobs of all drivers, as they tell; one that does not answer is shown as such."""
    for driver, entries in found:
        try:
            jobs = driver.get("/jobs/overview")["jobs"]
        except (UnreachableError, RefusedError):
            if not here:
                raise
            for entry in entries:
                if entry.is_alive:  # and not about to end
                    lost = {"jid": entry.job_id, "name": entry.name, "state": "UNREACHABLE"}
                    since = int(time.time() * 1000) - entry.started_at
                    yield {**lost, "start-time": entry.started_at, "duration": since, "pid": entry.pid}
            continue
        for job in jobs:
            if job["state"] in _ENDED:
                yield job
                continue
            own = _own(driver, job["jid"])
            yield {**job, "beadline": own, "page": driver.page} if own is not None else job


def _ended_elsewhere(known: set[str]) -> list[dict[str, Any]]:
    """Jobs of drivers that have ended too."""
    from beadline.cli.ended import overview

    return [job for job in overview() if job["jid"] not in known]


def _own(driver: Driver, job_id: str) -> dict[str, Any] | None:
    """What Beadline knows of a job and Flink has no words for; None from a driver of Flink."""
    try:
        told: dict[str, Any] = driver.get(f"/jobs/{job_id}/beadline")
        return told
    except CommandError:
        return None


def status(job: Job, address: Address = None, as_json: AsJson = False) -> None:
    """Show how a job is doing."""
    with problems_told():
        found = find_any(job, address)
        overview = found.get()
        own = _own(found.driver, found.job_id) or {} if isinstance(found, RunningJob) else found.get("/beadline")
        checkpoints = found.get("/checkpoints")
        exceptions = found.get("/exceptions")
    if as_json:
        show_json({**overview, "beadline": own, "checkpoints": checkpoints, "exceptions": exceptions})
        return
    out = console()
    for name, value in _facts(found, overview, own, checkpoints):
        out.print(f"{name:<12}{value}")
    root = str(exceptions.get("root-exception") or "").strip()
    if root:
        out.print(f"{'last error':<12}[red]{plain(root.splitlines()[0])}[/red]")
    history = checkpoints.get("history") or []
    if history:
        out.print()
        out.print(_checkpoint_table(history[:5]))


def _facts(
    job: RunningJob | EndedJob, overview: dict[str, Any], own: dict[str, Any], checkpoints: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    state = overview["state"]
    colour = _COLOURS.get(state, "default")
    yield "job", f"[bold]{plain(overview['name'])}[/bold] ({job.job_id})"
    yield (
        "status",
        f"[{colour}]{state}[/{colour}], {'after' if state in _ENDED else 'for'} {duration(overview.get('duration'))}",
    )
    if own:
        yield "program", plain(own.get("script") or "a program without a file")
        application = f", application {own['application']}" if own.get("application") else ""
        yield "engine", f"{own.get('engine')}, process {own.get('pid')}{application}"
        yield "guarantee", plain(own.get("guarantee") or "–")
        yield "step", f"{number(own.get('step'))}, {number(own.get('records'))} records read"
        behind = "" if own.get("lag") is None else f", {number(own['lag'])} waiting"
        yield "now", f"{number(own.get('records_per_second'))} records/s{behind}"
        yield "watermark", watermark(own.get("watermark"))
        yield "state", f"{number(own.get('keys'))} keys, {size(own.get('state_bytes'))}"
        again = own.get("rerun_steps")
        yield "restarts", f"{number(own.get('restarts'))}" + (f", {number(again)} steps run again" if again else "")
        if own.get("log"):
            yield "log", plain(own["log"])
    counts = checkpoints.get("counts") or {}
    yield (
        "checkpoints",
        (
            f"{number(counts.get('completed'))} completed, {number(counts.get('failed'))} failed, "
            f"{number(counts.get('in_progress'))} in progress"
        ),
    )
    if isinstance(job, EndedJob):
        yield "dashboard", "the job has ended: `beadline history` shows it"
        if own.get("resume_from") and state != "FINISHED":
            yield "resume", plain(f"beadline run -s {own['resume_from']} …")
    else:
        yield "dashboard", job.driver.page if console().is_terminal else job.driver.page.partition("#")[0]


def _checkpoint_table(history: list[dict[str, Any]]) -> Any:
    right = ("id", "took", "written", "full size")
    shown = table("id", "type", "status", "triggered (UTC)", "took", "written", "full size", right=right)
    for each in history:
        colour = {"FAILED": "red", "IN_PROGRESS": "yellow"}.get(each["status"], "default")
        shown.add_row(
            str(each["id"]),
            str(each.get("checkpoint_type", "")).lower().replace("_", " "),
            f"[{colour}]{each['status']}[/{colour}]",
            moment(each.get("trigger_timestamp")),
            duration(each.get("end_to_end_duration")),
            size(each.get("checkpointed_size")),
            size(each.get("state_size")),
        )
    return shown


# -- ending a job


class CancelCommand(TyperCommand):
    """``-s`` takes a directory if a job follows it too: ``cancel -s [targetDirectory] jobId``, as in Flink."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_directory(args))


def with_directory(args: list[str]) -> list[str]:
    """The arguments of ``cancel`` with ``-s`` and its directory joined: ``-s DIR JOB`` and ``JOB -s DIR`` have one,
    ``-s JOB`` and ``JOB -s`` have none."""
    names = ("-s", "--withSavepoint", "--with-savepoint")
    at = next((index for index, each in enumerate(args) if each in names), None)
    if at is None:
        return args
    follows = at + 1 < len(args) and not args[at + 1].startswith("-")
    rest = [*args[:at], *args[at + 2 :]] if follows else []
    return (
        [*rest, f"--with-savepoint={args[at + 1]}"]
        if _names_a_job(rest)
        else [*args[:at], "--with-savepoint=", *args[at + 1 :]]
    )


def _names_a_job(args: list[str]) -> bool:
    """Whether one of the arguments is neither an option nor the value of one."""
    value_of = ("-m", "--jobmanager", "-yid", "--yarnapplicationId", "--type", "-type")
    return any(
        not each.startswith("-") and (index == 0 or args[index - 1] not in value_of) for index, each in enumerate(args)
    )


def cancel(
    job: Job,
    directory: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--with-savepoint",
            "--withSavepoint",
            metavar="[DIR]",
            help="Take a savepoint first: in DIR, or without it in execution.checkpointing.savepoint-dir.",
        ),
    ] = None,
    format: SavepointFormat = "canonical",
    address: Address = None,
    as_json: AsJson = False,
    yarn: Yarn = None,
) -> None:
    """Cancel a job: it stops at once and commits nothing more. `beadline stop` ends one in good order."""
    with problems_told("The job is being cancelled."):
        found = find_job_in(yarn, job, address)
        if directory is not None:
            where = f" to {directory}" if directory else " to default savepoint directory"
            _say(as_json, f"Cancelling job {found.job_id} with savepoint{where}.")
            path = take_savepoint(found, directory or None, format, cancel=True)
            result = {"job_id": found.job_id, "savepoint": path}
            _say(as_json, f"Cancelled job {found.job_id}. Savepoint stored in {path}.")
        else:
            _say(as_json, f"Cancelling job {found.job_id}.")
            found.cancel()
            state = found.wait_for_end(_CANCEL_SECONDS)
            if state is not None and state not in _ENDED:
                fail(f"job {found.job_id} was told to end {_CANCEL_SECONDS:.0f} s ago and is still {state}.")
            result = {"job_id": found.job_id}
            _say(as_json, f"Cancelled job {found.job_id}.")
        if as_json:
            show_json(result)


def stop(
    job: Job,
    directory: Annotated[
        str | None,
        typer.Option(
            "-p",
            "--savepoint-path",
            "--savepointPath",
            metavar="DIR",
            help="Where the savepoint goes; without it to execution.checkpointing.savepoint-dir.",
        ),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option("-d", "--drain", help="First run event time to its end, so that all windows and timers fire."),
    ] = False,
    format: SavepointFormat = "canonical",
    detached: Annotated[bool, typer.Option("--detached", help="Don't wait for the savepoint.")] = False,
    address: Address = None,
    as_json: AsJson = False,
    yarn: Yarn = None,
) -> None:
    """Stop a job with a savepoint: its output so far is committed, but for files that are not complete yet: the
    savepoint has them. Don't drain a job that is to go on later."""
    from beadline.cli.triggering import absolute, stop_with_savepoint

    with problems_told("The job goes on with stopping."):
        found = find_job_in(yarn, job, address)
        what = "Draining job" if drain else "Suspending job"
        _say(as_json, f'{what} "{found.job_id}" with a {format.upper()} savepoint.')
        if detached:
            request = found.stop(absolute(directory), format.upper(), drain)
            _say(as_json, f"Triggered stop with savepoint, request {request}.")
            if as_json:
                show_json({"job_id": found.job_id, "request_id": request})
            return
        path = stop_with_savepoint(found, directory, format, drain)
        if as_json:
            show_json({"job_id": found.job_id, "savepoint": path})
        else:
            say(f"Savepoint completed. Path: {path}")


def _say(as_json: bool, text: str) -> None:
    if not as_json:
        say(text)
