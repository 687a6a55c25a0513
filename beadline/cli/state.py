"""``beadline state``: what a running job, a checkpoint or a savepoint knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from beadline.cli.client import Address
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
    watermark,
)

if TYPE_CHECKING:
    from beadline.cli.state_source import Source

app = typer.Typer(
    name="state", help="Look into the state of a running job, a checkpoint or a savepoint.", no_args_is_help=True
)

Where: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="JOB-OR-PATH",
        help="A running job (its id, the beginning of it, or its name), or the path of a checkpoint, a savepoint, or "
        "a job's folder.",
        show_default=False,
    ),
]
Operator: TypeAlias = Annotated[
    str | None,
    typer.Option("-o", "--operator", metavar="UID", help="Which operator; needed if several have keyed state."),
]
OneState: TypeAlias = Annotated[str | None, typer.Option("--state", metavar="NAME", help="Only this state.")]
Exact: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--exact/--estimate",
        help="Count entries, or go by the indexes of the files, whose numbers are upper bounds. Without either, "
        "state up to 20,000 entries is counted.",
        show_default=False,
    ),
]

_BAR = 30


@app.command("list")
def list_states(where: Where, exact: Exact = None, address: Address = None, as_json: AsJson = False) -> None:
    """List operators and their states: names, kinds, types, entries and bytes."""
    with problems_told():
        answer = _source(where, address).overview(None, exact)
    if as_json:
        show_json(answer)
        return
    out = console()
    out.print(f"step {answer['step']}, {moment(answer['at'])} UTC, {_bytes(answer)}")
    rows = table("operator", "uid", "keys", "state", "kind", "type", "entries", "bytes", "table", right=_NUMBERS)
    estimated = False
    for operator in answer["operators"]:
        first = (operator["name"], operator["uid"], number(operator["keys"]) if operator["keyed"] else "")
        estimated |= not operator["exact"]
        for state in operator["states"]:
            about = "" if operator["exact"] else "≤ "
            numbers = f"{about}{number(state['entries'])}", size(state["bytes"])
            cells = (*first, state["name"], _kind(state), _type(state, operator), *numbers, state["table"] or "")
            rows.add_row(*map(plain, cells))
            first = ("", "", "")
    out.print(rows)
    if estimated:
        say("≤: by the indexes of the files, with entries that later ones replace; --exact counts.", err=True)


@app.command()
def sizes(
    where: Where, operator: Operator = None, exact: Exact = None, address: Address = None, as_json: AsJson = False
) -> None:
    """Show how state spreads over operators, subtasks and key groups."""
    with problems_told():
        answer = _source(where, address).overview(operator, exact)
    if as_json:
        show_json(answer)
        return
    out = console()
    for found in answer["operators"]:
        if not found["states"]:
            continue
        out.print(f"[bold]{plain(found['name'])}[/bold] ({plain(found['uid'])}): {_bytes(found)}")
        rows = table("subtask", "key groups", "keys", "entries", "bytes", "", right=_NUMBERS)
        most = max((subtask["bytes"] for subtask in found["subtasks"]), default=0)
        for subtask in found["subtasks"]:
            groups = "" if not found["keyed"] else f"{subtask['first_key_group']} to {subtask['last_key_group']}"
            numbers = number(subtask["keys"]), number(subtask["entries"]), size(subtask["bytes"])
            rows.add_row(str(subtask["subtask"]), groups, *numbers, _bar(subtask["bytes"], most))
        out.print(rows)
        if found["keyed"]:
            out.print(_spread(found["key_groups"]))
        out.print()


@app.command()
def key(
    where: Where,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="The key, as its type is written: text, a number, or JSON such as '[\"ann\", 7]'."
        ),
    ],
    operator: Operator = None,
    state: OneState = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show all values and timers of a key. The exit code is 1 if it has none."""
    with problems_told():
        source = _source(where, address)
        answer = source.key(_keyed(source, operator), key, state)
    if as_json:
        show_json(answer)
    elif not answer["found"]:
        say(f"operator '{answer['operator']}' has nothing for key {answer['key_text']}.", err=True)
    else:
        _show_key(answer)
    raise typer.Exit(0 if answer["found"] else 1)


@app.command()
def largest(
    where: Where,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, max=1000, help="How many keys.")] = 10,
    operator: Operator = None,
    state: OneState = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show the keys with the most state, and what of it takes how much."""
    with problems_told():
        source = _source(where, address)
        answer = source.largest(_keyed(source, operator), n, state)
    if as_json:
        show_json(answer)
        return
    rows = table("key", "subtask", "key group", "entries", "bytes", "states", right=_NUMBERS)
    for found in answer["keys"]:
        states = ", ".join(f"{name} {size(taken)}" for name, taken in found["states"].items())
        numbers = found["subtask"], found["key_group"], number(found["entries"]), size(found["bytes"])
        rows.add_row(*map(plain, (found["key_text"], *numbers, states)))
    console().print(rows)
    say(f"of {number(answer['keys_seen'])} keys with {size(answer['bytes_seen'])}", err=True)
    if answer["note"]:
        say(answer["note"], err=True)


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A query of DuckDB's SQL, over tables such as uid.state.")
    ],
    where: Annotated[
        str,
        typer.Option("--from", metavar="JOB-OR-PATH", help="A running job, or the path of a checkpoint or savepoint."),
    ],
    address: Address = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Query state with SQL: one table for each operator and state, with the columns key and value.

    'beadline state list' says what the tables are called.
    """
    from beadline.cli import state_sql

    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other.")
    with problems_told(), _source(where, address).opened() as catalog, state_sql.asked(catalog, query) as answer:
        if as_json:
            state_sql.show_json(answer)
        elif as_csv:
            state_sql.show_csv(answer)
        else:
            state_sql.show_table(answer)


# -- where from


def _source(where: str, address: str | None) -> Source:
    from beadline.cli.state_source import source_of

    return source_of(where, address)


def _keyed(source: Source, operator: str | None) -> str:
    """The operator that was named, or the only one with keyed state."""
    if operator is not None:
        return operator
    answer = source.overview(None, False)
    found = [each for each in answer["operators"] if any(state["scope"] == "keyed" for state in each["states"])]
    if len(found) == 1:
        return str(found[0]["uid"])
    if not found:
        raise CommandError("no operator has keyed state")
    listed = "\n".join(f"  {each['uid']} ({each['name']})" for each in found)
    raise CommandError(f"several operators have keyed state; name one with --operator:\n{listed}")


# -- for people

_NUMBERS = ("keys", "entries", "bytes", "subtask", "key group")


def _bytes(answer: dict[str, Any]) -> str:
    return f"{size(answer['bytes'])} of state, {size(answer['file_bytes'])} in files"


def _kind(state: dict[str, Any]) -> str:
    kind = state["descriptor"] or (f"{state['kind']} state" if state["kind"] else "")
    return f"{kind}{', by window' if state['windowed'] else ''}"


def _type(state: dict[str, Any], operator: dict[str, Any]) -> str:
    value = state["type"] or ""
    if state["map_key_type"]:
        value = f"{state['map_key_type']} → {value}"
    if state["ttl_ms"] is not None:
        value += f" (lives {state['ttl_ms']} ms)"
    key = operator["key_type"] if state["scope"] == "keyed" else None
    return f"{key or 'any'} → {value or 'any'}" if state["scope"] == "keyed" and state["kind"] != "timer" else value


def _bar(value: float, most: float) -> str:
    return "█" * round(_BAR * value / most) if most else ""


_HEIGHTS = " ▁▂▃▄▅▆▇█"


def _spread(groups: dict[str, Any]) -> str:
    """A line of bars, one for each key group or some of them."""
    values = groups["bytes"]
    most = max(values, default=0) or 1
    bars = "".join(_HEIGHTS[-(-value * (len(_HEIGHTS) - 1) // most)] for value in values)
    each = "a bar for each" if groups["width"] == 1 else f"a bar for {groups['width']}"
    full = sum(1 for value in values if value)
    return f"key groups ({each}, {full} of {len(values)} in use, {size(most)} at most): {bars}"


def _show_key(answer: dict[str, Any]) -> None:
    out = console()
    where = f"subtask {answer['subtask']}, key group {answer['key_group']}, step {answer['step']}"
    out.print(
        f"[bold]{plain(answer['key_text'])}[/bold] in '{plain(answer['operator'])}': {where}, {size(answer['bytes'])}"
    )
    rows = table("state", "kind", "window", "value", "written", "expires")
    for state in answer["states"]:
        first = state["name"], state["descriptor"] or state["kind"]
        for entry in state["entries"]:
            times = [moment(entry[name]) if entry[name] else "" for name in ("written_at", "expires_at")]
            if entry["expired"]:
                times[1] += " (expired)"
            rows.add_row(*map(plain, (*first, _window(entry["window"]), _value(entry), *times)))
            first = ("", "")
        if state["left_off"]:
            rows.add_row("", "", f"… {number(state['left_off'])} more", "", "", "")
    if answer["states"]:
        out.print(rows)
    timers = table("timer", "at", "window")
    for timer in answer["timers"]:
        at = f"{timer['timestamp']} ({watermark(timer['timestamp'])})"
        timers.add_row(*map(plain, (f"{timer['domain']} time", at, _window(timer["window"]))))
    if answer["timers_left_off"]:
        timers.add_row("", f"… {number(answer['timers_left_off'])} more", "")
    if answer["timers"]:
        out.print(timers)


def _window(window: dict[str, int] | None) -> str:
    return "" if window is None else f"[{window['start']}, {window['end']})"


def _value(entry: dict[str, Any]) -> str:
    value = entry["value"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{text} … (of {number(entry['length'])} elements)" if entry["truncated"] and entry["length"] else text
