"""``beadline savepoint``: what a checkpoint or savepoint holds, and whether a program can go on from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from beadline.cli import script as program
from beadline.cli.output import AsJson, console, plain, problems_told, say, show_json, table
from beadline.cli.triggering import trigger

if TYPE_CHECKING:
    from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
    from beadline.master.upgrade.comparison import Comparison
    from beadline.state.description import StateDescription
    from beadline.state.segments.version import SegmentRef


class SavepointGroup(TyperGroup):
    """Also takes what Flink's command takes: ``savepoint JOB [DIR]`` and ``savepoint --dispose PATH``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] in ("-d", "--dispose"):
            args = ["dispose", *args[1:]]
        elif args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["trigger", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="savepoint",
    cls=SavepointGroup,
    help="Take a savepoint of a running job (beadline savepoint JOB [DIR]), or look into one.",
    subcommand_metavar="JOB [DIR] | COMMAND [ARGS]…",
    no_args_is_help=True,
)
app.command()(trigger)

_COLOURS = {"refused": "red", "dropped": "red", "migrated": "yellow", "new": "cyan", "restored": "green"}


@app.command()
def show(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A checkpoint or savepoint.")], as_json: AsJson = False
) -> None:
    """Show what a checkpoint or savepoint holds."""
    snapshot = _read(path)
    if as_json:
        show_json({**dict(_head(snapshot)), "operators": [_operator_json(each) for each in snapshot.operators]})
        return
    out = console()
    for name, value in _head(snapshot):
        out.print(f"{name:<9}[bold]{plain(value)}[/bold]" if name == "job" else f"{name:<9}{plain(value)}")
    numbers = ("entries", "bytes")
    shown = table("operator", "uid", "parallelism", "state", *numbers, right=numbers)
    for operator in snapshot.operators:
        for row in _operator_rows(operator):
            shown.add_row(*map(plain, row))
    out.print()
    out.print(shown)


# Options end at the script's name, so that options after it are the script's own.
@app.command(context_settings={"allow_interspersed_args": False})
def diff(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A checkpoint or savepoint.")],
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The Python program.")],
    args: program.Arguments = None,
    parallelism: program.Parallelism = None,
    pyflink: program.PyFlink = False,
    allow_non_restored: program.AllowNonRestored = False,
    define: program.Definitions = None,
    as_json: AsJson = False,
) -> None:
    """Show what would happen to the state if a program went on from it. The program runs up to its execute(), no job
    is started, and the exit code is 0 if it would start. Options come before PATH."""
    options = program.job_options(define or [], parallelism)
    snapshot = _read(path)
    comparison = _compare(snapshot, script, args or [], options, pyflink, allow_non_restored)
    if as_json:
        show_json(_comparison_json(comparison))
        raise typer.Exit(1 if comparison.refusals else 0)
    _show(comparison)
    for warning in comparison.warnings:
        say(f"warning: {warning}", err=True)
    refusals = comparison.refusals
    for refusal in refusals:
        say(f"refused: {refusal}", err=True)
    raise typer.Exit(1 if refusals else 0)


@app.command()
def dispose(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A savepoint, or a checkpoint that no job needs.")],
) -> None:
    """Remove a savepoint or a retained checkpoint: what Beadline wrote there, and nothing else."""
    from beadline.checkpoint.cleanup.disposal import dispose_savepoint

    with _problems_told():
        disposed = dispose_savepoint(path)
    say(f"Savepoint '{path}' disposed: {disposed.files} files, {disposed.bytes:,} bytes.")
    if not disposed.is_gone:
        say(f"{disposed.folder} stays, because other files are in it.")


def _compare(
    snapshot: Snapshot, script: Path, args: list[str], options: dict[str, str], pyflink: bool, allow: bool
) -> Comparison:
    from beadline.cli.up_to_execute import reach
    from beadline.master.upgrade.compatibility import compare
    from beadline.runtime.operators.describe import declared_states

    with problems_told():
        reached = reach(script, args, options, pyflink)
    allow = allow or reached.settings.checkpoints.ignore_unclaimed_state
    return compare(snapshot, reached.plan, declared_states(reached.plan, snapshot.step), allow)


def _show(comparison: Comparison) -> None:
    shown = table("operator", "state", "", "")
    for operator, state, fate, note in comparison.rows():
        colour = _COLOURS.get(fate, "default")
        shown.add_row(plain(operator), plain(state), f"[{colour}]{fate}[/{colour}]", plain(note))
    out = console()
    out.print(f"[bold]{plain(repr(comparison.snapshot))}[/bold] and '{plain(comparison.plan.job_name)}':")
    out.print(shown)


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    operators = [
        {
            "name": operator.name,
            "uid": operator.uid,
            "generated_uid": operator.generated,
            "fate": operator.fate.value,
            "notes": list(operator.notes),
            "states": [
                {"name": state.name, "fate": state.fate.value, "note": state.note, "refusal": state.refusal or None}
                for state in operator.states
            ],
        }
        for operator in comparison.operators
    ]
    refusals = comparison.refusals
    return {"starts": not refusals, "operators": operators, "warnings": comparison.warnings, "refusals": refusals}


def _operator_json(operator: OperatorSnapshot) -> dict[str, Any]:
    states = [
        {"state": state.strip(), "entries": _digits(entries), "bytes": _digits(sizes)}
        for _, _, _, state, entries, sizes in _operator_rows(operator)
        if state
    ]
    about = {"name": operator.name, "uid": operator.uid, "generated_uid": operator.generated_uid}
    return {
        **about,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "states": states,
    }


def _digits(text: str) -> int | None:
    return int(text.replace(",", "")) if text else None


# -- what a snapshot holds


def _read(path: str) -> Snapshot:
    from beadline.checkpoint.directory.lookup import read_snapshot

    with _problems_told():
        return read_snapshot(path)


@contextmanager
def _problems_told() -> Iterator[None]:
    """A problem with a snapshot is reported in one sentence, and ends the command."""
    from beadline.checkpoint.contents.snapshot import SnapshotError

    try:
        yield
    except SnapshotError as error:
        say(f"error: {error}", err=True)
        raise typer.Exit(1) from None


def _head(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    yield "job", f"{snapshot.job_name} ({snapshot.job_id})"
    if snapshot.program.script:
        yield "program", str(snapshot.program)
    how = ", unaligned" if snapshot.unaligned else ""
    yield "kind", f"{snapshot.kind.value} {snapshot.checkpoint_id}{how}, {_layout(snapshot)}"
    yield "format", str(snapshot.format_version)
    yield "time", f"{datetime.fromtimestamp(snapshot.timestamp / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield "step", f"{snapshot.step}, {snapshot.counters.get('records', 0):,} records read"
    yield "state", f"{snapshot.size:,} bytes, {len(snapshot.files())} files"


def _layout(snapshot: Snapshot) -> str:
    """Canonical if its state is in tables that any tool reads, native if it is the segments as they are."""
    files = snapshot.files()
    return "canonical" if files and all(file.endswith(".parquet") for file in files) else "native"


def _operator_rows(operator: OperatorSnapshot) -> Iterator[tuple[str, ...]]:
    uid = f"{operator.uid}{' (generated)' if operator.generated_uid else ''}"
    first = (operator.name, uid, f"{operator.parallelism} of {operator.max_parallelism}")
    rows = [*_keyed_rows(operator), *_operator_state_rows(operator)]
    if operator.position is not None:
        rows.append((f"position {operator.position}", "", ""))
    if operator.committables is not None:
        rows.append(("output that is committed on restore", "", ""))
    for row in rows or [("", "", "")]:
        yield (*first, *row)
        first = ("", "", "")


def _keyed_rows(operator: OperatorSnapshot) -> Iterator[tuple[str, str, str]]:
    """All keyed state together; then each state, with its own numbers where it has files of its own."""
    from beadline.common.type_description import readable
    from beadline.state.description import KEYED
    from beadline.state.segments.files import base_name, parent, safe_name

    segments = [segment for handle in operator.keyed if handle is not None for segment in handle.segments]
    if segments:
        keys = readable(operator.key_type) if operator.key_type else "any object"
        yield f"by key, {keys}", *_numbers(segments)
    for state in operator.state_descriptions:
        if state.scope == KEYED:
            folders = (safe_name(state.name), f"{safe_name(state.name)}-keyed")
            own = [
                segment
                for segment in segments
                if segment.path is not None and base_name(parent(segment.path)) in folders
            ]
            yield f"  {_described(state)}", *(_numbers(own) if own else ("", ""))


def _operator_state_rows(operator: OperatorSnapshot) -> Iterator[tuple[str, str, str]]:
    from beadline.state.description import OPERATOR

    parts: dict[str, list[SegmentRef]] = {}
    for handle in operator.operator_state:
        for name, ref in handle.states.items() if handle is not None else ():
            parts.setdefault(name, []).extend(ref.own_parts)
    described = {state.name: _described(state) for state in operator.state_descriptions if state.scope == OPERATOR}
    for name in [*described, *(name for name in parts if name not in described)]:
        yield described.get(name, name), *_numbers(parts.get(name, []))


def _described(state: StateDescription) -> str:
    from beadline.master.upgrade.comparison import shown_name, type_of

    ttl = "" if state.ttl_ms is None else f", lives {state.ttl_ms} ms"
    return f"{shown_name(state)}: {type_of(state)}{ttl}".removesuffix(": ")


def _numbers(segments: list[SegmentRef]) -> tuple[str, str]:
    """Entries, including those that later ones change or remove, and bytes."""
    return f"{sum(segment.entries for segment in segments):,}", f"{sum(segment.size for segment in segments):,}"
