"""``beadline checkpoints``: what lies in checkpoint directories, whether it is whole, and what can go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beadline.cli.output import (
    AsJson,
    CommandError,
    console,
    moment,
    number,
    plain,
    problems_told,
    say,
    show_json,
    size,
    table,
)

if TYPE_CHECKING:
    from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
    from beadline.checkpoint.directory.lookup import Listed

app = typer.Typer(
    name="checkpoints", help="List, inspect, verify and prune checkpoints and savepoints.", no_args_is_help=True
)

_NUMBERS = ("step", "bytes", "files", "subtask", "segments")


@app.command("list")
def list_checkpoints(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB-OR-DIR]",
            help="A running job, a checkpoint directory, or a job's folder in it. Without it all running jobs.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints that a job could go on from, newest first. Savepoints in a directory are listed too."""
    with problems_told():
        found = [_listed_json(folder, listed) for folder, listed in _listed(where)]
    if as_json:
        show_json({"checkpoints": found})
        return
    if not found:
        say("there are no checkpoints.", err=True)
        return
    rows = table("job", "name", "kind", "time", "step", "bytes", "files", "path", right=_NUMBERS)
    for each in found:
        if each["problem"]:
            rows.add_row(plain(each["job_id"]), "", "[red]can't be read[/red]", "", "", "", "", plain(each["path"]))
            continue
        kind = f"{each['kind']} {each['id']}" if each["kind"] == "checkpoint" else each["kind"]
        numbers = moment(each["time"]), number(each["step"]), size(each["bytes"]), number(each["files"])
        rows.add_row(*map(plain, (each["job_id"], each["name"], kind, *numbers, each["path"])))
    console().print(rows)
    for each in found:
        if each["problem"]:
            say(each["problem"], err=True)


@app.command()
def inspect(
    path: Annotated[
        str, typer.Argument(metavar="JOB-OR-PATH", help="A checkpoint or savepoint, a job's folder, or a running job.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint or savepoint consists of: operators, subtasks, files, sizes."""
    with problems_told():
        pointer, snapshot = _read(path)
        answer = _snapshot_json(pointer, snapshot)
    if as_json:
        show_json(answer)
        return
    out = console()
    out.print(
        f"[bold]{plain(answer['kind'])} {answer['id']}[/bold] of '{plain(answer['name'])}' ({plain(answer['job_id'])})"
    )
    out.print(
        f"{moment(answer['time'])} UTC, step {answer['step']}, {size(answer['bytes'])} in {answer['files']} files"
    )
    rows = table("operator", "uid", "subtask", "keyed", "operator state", "other", "segments", "inline", right=_NUMBERS)
    for operator in answer["operators"]:
        first = operator["name"], operator["uid"]
        for subtask in operator["subtasks"]:
            sizes = [size(subtask[name]) for name in ("keyed_bytes", "operator_bytes", "local_bytes")]
            more = number(subtask["segments"]), size(subtask["inline_bytes"])
            rows.add_row(*map(plain, (*first, subtask["subtask"], *sizes, *more)))
            first = "", ""
    out.print(rows)
    listed = table("file", "bytes", "used by", right=_NUMBERS)
    for file in answer["file_list"]:
        there = size(file["bytes"]) if file["bytes"] is not None else "[red]missing[/red]"
        listed.add_row(plain(file["path"]), there, plain(", ".join(file["operators"])))
    if answer["file_list"]:
        out.print(listed)


@app.command()
def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB-OR-PATH…",
            help="Checkpoints, savepoints, job folders, directories of jobs, or running jobs.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Read every file of checkpoints or savepoints and compare checksums. The exit code is 1 if anything is wrong."""
    from beadline.checkpoint.storage.durable import all_files
    from beadline.checkpoint.storage.durable import verify as problems_of

    checked: list[dict[str, Any]] = []
    with problems_told():
        for listed in (listed for path in paths for listed in _all_at(path)):
            if listed.snapshot is None:
                problems = [listed.problem or "it can't be read"]
            else:
                problems = [str(problem) for problem in problems_of(listed.snapshot, spare=True)]
            files = len(all_files(listed.snapshot)) if listed.snapshot is not None else 0
            checked.append({"path": listed.pointer, "files": files, "problems": problems})
            if not as_json:
                _show_verdict(checked[-1])
    if as_json:
        show_json({"checked": checked})
    raise typer.Exit(1 if any(each["problems"] for each in checked) else 0)


@app.command()
def prune(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A checkpoint directory, or a job's folder in it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove them. Without it they are only listed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what dead drivers have left: files that no checkpoint names, and unfinished checkpoints.

    Jobs whose driver is alive are left alone, and so is every complete checkpoint and savepoint.
    """
    from beadline.checkpoint.cleanup import pruning

    with problems_told():
        if not pruning.job_folders(directory):
            raise CommandError(f"there is no job in {directory}: name a checkpoint directory, or a job's folder in it")
        found = pruning.leftovers_in(directory, _needed_by_running_jobs())
        removed = [yes and bool(each.found or each.whole) and pruning.remove(each) for each in found]
    answer = [
        {
            "folder": each.folder,
            "checkpoints": each.checkpoints,
            "files": [{"path": leftover.path, "bytes": leftover.bytes} for leftover in each.found],
            "bytes": each.bytes,
            "whole": each.whole,
            "kept": each.kept or None,
            "removed": gone,
        }
        for each, gone in zip(found, removed, strict=True)
    ]
    if as_json:
        show_json({"jobs": answer, "removed": yes})
        return
    _show_pruned(answer, yes)


# -- finding


def _listed(where: str | None) -> Iterator[tuple[str, Listed]]:
    from beadline.checkpoint.cleanup.pruning import job_folders
    from beadline.checkpoint.directory.lookup import list_job

    if where is not None and _is_path(where):
        _check_there(where)
    folders = job_folders(where) if where is not None and _is_path(where) else list(_folders_of_jobs(where))
    for folder in folders:
        for listed in list_job(folder):
            yield folder, listed
    if where is not None and _is_path(where):
        for listed in _savepoints_in(where):
            yield where, listed


def _is_path(where: str) -> bool:
    return "/" in where or Path(where).exists()


def _check_there(path: str) -> None:
    """A path where nothing is has no checkpoints, and none that are damaged."""
    from beadline.checkpoint.directory.lookup import canonical
    from beadline.state.segments.files import is_folder, size_of

    if not is_folder(canonical(path)) and size_of(canonical(path)) is None:
        raise CommandError(f"there is nothing at {path}: no such file or folder")


def _folders_of_jobs(name: str | None) -> Iterator[str]:
    """The folders of running jobs, or of one."""
    from beadline.master.client import registry
    from beadline.state.segments.files import is_folder, join

    for entry in registry.entries() if name is None else [registry.find(name)]:
        if entry.checkpoint_dir is None:
            if name is not None:
                raise CommandError(
                    f"job '{entry.name}' ({entry.job_id}) keeps its checkpoints in the driver's memory: "
                    "execution.checkpointing.dir is not set"
                )
            continue
        own = join(entry.checkpoint_dir, entry.job_id)
        yield own if is_folder(own) else entry.checkpoint_dir


def _needed_by_running_jobs() -> set[str]:
    """Files that the checkpoints of running jobs name, wherever these are: a job may have claimed another's files."""
    from beadline.checkpoint.directory.lookup import list_job

    listed = (listed for folder in _folders_of_jobs(None) for listed in list_job(folder))
    return {file for each in listed if each.snapshot is not None for file in each.snapshot.files()}


def _savepoints_in(folder: str) -> list[Listed]:
    from beadline.checkpoint.contents.metadata import METADATA
    from beadline.checkpoint.contents.snapshot import SnapshotError
    from beadline.checkpoint.directory.lookup import SAVEPOINT, Listed, canonical, read_snapshot
    from beadline.state.segments.files import entries_of, join, size_of

    found = []
    for entry in entries_of(canonical(folder)):
        path = join(canonical(folder), entry.name)
        if entry.folder and SAVEPOINT.fullmatch(entry.name) and size_of(join(path, METADATA)) is not None:
            try:
                snapshot = read_snapshot(path)
                found.append(Listed(path, snapshot.checkpoint_id, snapshot))
            except SnapshotError as error:
                found.append(Listed(path, 0, None, str(error)))
    return sorted(found, key=lambda each: each.snapshot.timestamp if each.snapshot else 0, reverse=True)


def _all_at(path: str) -> list[Listed]:
    """One snapshot, or all in a job's folder or a directory of jobs."""
    from beadline.checkpoint.contents.metadata import METADATA
    from beadline.checkpoint.contents.snapshot import SnapshotError
    from beadline.checkpoint.directory.lookup import Listed, canonical, read_snapshot
    from beadline.state.segments.files import is_folder, join, size_of

    if not _is_path(path):
        return [listed for _, listed in _listed(path)]
    _check_there(path)
    folder = canonical(path)
    if is_folder(folder) and size_of(join(folder, METADATA)) is None:
        found = [listed for _, listed in _listed(folder)]
        if found:
            return found
    try:
        snapshot = read_snapshot(path)
    except SnapshotError as error:
        return [Listed(folder, 0, None, str(error))]
    return [Listed(folder, snapshot.checkpoint_id, snapshot)]


def _read(path: str) -> tuple[str, Snapshot]:
    from beadline.checkpoint.directory.lookup import read_snapshot
    from beadline.cli.state_source import newest_in

    if not _is_path(path):
        [path] = _folders_of_jobs(path)
    _check_there(path)
    pointer = newest_in(path)
    return pointer, read_snapshot(pointer)


# -- as JSON


def _listed_json(folder: str, listed: Listed) -> dict[str, Any]:
    snapshot = listed.snapshot
    about: dict[str, Any] = {"path": listed.pointer, "id": listed.checkpoint_id, "problem": listed.problem}
    if snapshot is None:
        return {**about, "job_id": Path(folder).name, "name": None, "kind": None}
    return {**about, **_head(snapshot)}


def _head(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "job_id": snapshot.job_id,
        "name": snapshot.job_name,
        "kind": snapshot.kind.value,
        "time": snapshot.timestamp,
        "step": snapshot.step,
        "bytes": snapshot.size,
        "files": len(snapshot.files()),
    }


def _snapshot_json(pointer: str, snapshot: Snapshot) -> dict[str, Any]:
    from beadline.state.segments.files import size_of

    users: dict[str, dict[str, None]] = {path: {} for path in sorted(snapshot.files())}
    for operator in snapshot.operators:
        for segment in operator.segments:
            if segment.path is not None:
                users[segment.path][operator.uid] = None
    return {
        "path": pointer,
        "id": snapshot.checkpoint_id,
        **_head(snapshot),
        "operators": [_operator_json(operator) for operator in snapshot.operators],
        "file_list": [{"path": p, "bytes": size_of(p), "operators": [*uids]} for p, uids in users.items()],
    }


def _operator_json(operator: OperatorSnapshot) -> dict[str, Any]:
    subtasks = []
    for subtask in range(operator.parallelism):
        keyed = operator.keyed[subtask] if subtask < len(operator.keyed) else None
        own = operator.operator_state[subtask] if subtask < len(operator.operator_state) else None
        local = operator.locals[subtask] if subtask < len(operator.locals) else None
        segments = [*(keyed.segments if keyed else ()), *(own.segments if own else ())]
        subtasks.append(
            {
                "subtask": subtask,
                "keyed_bytes": keyed.size if keyed else 0,
                "operator_bytes": own.size if own else 0,
                "local_bytes": len(local or b""),
                "segments": len(segments),
                "inline_bytes": sum(segment.size for segment in segments if segment.inline is not None),
            }
        )
    about = {"uid": operator.uid, "name": operator.name, "parallelism": operator.parallelism}
    return {**about, "max_parallelism": operator.max_parallelism, "subtasks": subtasks}


# -- for people


def _show_verdict(checked: dict[str, Any]) -> None:
    out = console()
    if not checked["problems"]:
        out.print(f"[green]ok[/green]       {plain(checked['path'])} ({checked['files']} files)")
        return
    out.print(f"[red]damaged[/red]  {plain(checked['path'])}")
    for problem in checked["problems"]:
        out.print(f"         {plain(problem)}")


def _show_pruned(jobs: list[dict[str, Any]], yes: bool) -> None:
    out = console()
    rows = table("job", "checkpoints", "files", "bytes", "", right=("checkpoints", *_NUMBERS))
    for job in jobs:
        what = "removed" if job["removed"] else "a driver has taken it: left alone" if yes and job["files"] else ""
        note = job["kept"] or ("nothing to go on from: the whole folder goes" if job["whole"] and not yes else what)
        numbers = number(job["checkpoints"]), number(len(job["files"])), size(job["bytes"])
        rows.add_row(*map(plain, (job["folder"], *numbers, note)))
    out.print(rows)
    if not yes and any(job["files"] or job["whole"] for job in jobs):
        say("Nothing was removed: --yes does that, --json lists every file.", err=True)
