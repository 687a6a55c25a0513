"""``beadline kafka``: transactions that a dead job left open in Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beadline.cli.output import console, plain, say, table

if TYPE_CHECKING:
    from beadline.connectors.kafka.coordinator import Coordinator, Described

app = typer.Typer(name="kafka", help="Look after what jobs leave in Kafka.", no_args_is_help=True)
transactions = typer.Typer(
    name="transactions",
    help="Open transactions. Until they end, read_committed consumers see nothing that was written after them.",
    no_args_is_help=True,
)
app.add_typer(transactions)

Servers = Annotated[
    str, typer.Option("--bootstrap-servers", metavar="HOST:PORT,…", help="Where the brokers are.", show_default=False)
]
Prefix = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="Only transactions whose ids begin with this.")
]
CommandConfig = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="A properties file with what the brokers need for a log-in."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Transactional ids.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]

_NUMBERS = ("producer", "epoch", "age", "timeout")
_COLUMNS = ("transactional id", "state", "producer", "epoch", "age", "timeout", "partitions")


@transactions.command("list")
def list_open(
    bootstrap_servers: Servers,
    prefix: Prefix = None,
    all_states: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List open transactions, the oldest first."""
    with _connected(bootstrap_servers, command_config) as coordinator:
        found = _found(coordinator, prefix, None if all_states else ["Ongoing", "PrepareCommit", "PrepareAbort"])
    if as_json:
        typer.echo(json.dumps([{"id": id, **_as_data(told)} for id, told in found], indent=2))
        return
    if not found:
        say("No open transactions." if prefix is None else f"No open transactions that begin with '{prefix}'.")
        return
    shown = table(*_COLUMNS, right=_NUMBERS)
    for id, told in found:
        row = (told.state, str(told.producer_id), str(told.epoch), _age(told), _seconds(told.timeout / 1000))
        shown.add_row(plain(id), *row, plain(", ".join(told.partitions)))
    console().print(shown)


@transactions.command()
def commit(
    bootstrap_servers: Servers,
    ids: Ids = None,
    prefix: Prefix = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Commit open transactions: what they hold becomes visible. Only if the job that wrote them will never be resumed:
    it would take care of them itself."""
    _end(True, bootstrap_servers, ids, prefix, command_config, as_json, yes)


@transactions.command()
def abort(
    bootstrap_servers: Servers,
    ids: Ids = None,
    prefix: Prefix = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Abort open transactions, and fence whoever still writes in them. A job that is resumed writes again what it needs
    of them."""
    _end(False, bootstrap_servers, ids, prefix, command_config, as_json, yes)


def _end(
    committing: bool,
    servers: str,
    ids: list[str] | None,
    prefix: str | None,
    command_config: Path | None,
    as_json: bool,
    yes: bool,
) -> None:
    if bool(ids) == bool(prefix):
        raise typer.BadParameter("name transactions by their ids, or by --prefix.")
    with _connected(servers, command_config) as coordinator:
        chosen = ids or [id for id, _ in _found(coordinator, prefix, ["Ongoing"])]
        act = "commit" if committing else "abort"
        if chosen and not yes and not as_json:
            typer.confirm(f"{act.capitalize()} {len(chosen)} transactions: {', '.join(chosen[:5])}?", abort=True)
        results = [(id, *_ended(coordinator, id, committing)) for id in chosen]
    if as_json:
        typer.echo(json.dumps([{"id": id, "done": done, "result": said} for id, done, said in results], indent=2))
    elif not results:
        say(f"No open transactions that begin with '{prefix}'.")
    else:
        shown = table("transactional id", "")
        for id, done, said in results:
            shown.add_row(plain(id), f"[{'green' if done else 'red'}]{plain(said)}[/]")
        console().print(shown)
    raise typer.Exit(0 if all(done for _, done, _ in results) else 1)


def _ended(coordinator: Coordinator, id: str, committing: bool) -> tuple[bool, str]:
    """Whether a transaction has come to the end that was asked for, and a word about it."""
    from beadline.connectors.kafka.transactions import end_stray

    told = coordinator.describe(id)
    if told is None:
        return False, "unknown to the broker"
    if not committing:
        if told.aborted:
            return True, "was aborted before"
        return (True, "aborted") if end_stray(coordinator, id) else (False, "was committed before")
    if told.committed:
        return True, "was committed before"
    if told.state != "Ongoing":
        return False, "not open" if told.state == "Empty" else "was aborted before"
    if coordinator.end(id, told.producer_id, told.epoch, commit=True):
        return True, "committed"
    now = coordinator.describe(id)
    return False, f"refused: it is {now.state if now is not None else 'gone'}"


def _found(coordinator: Coordinator, prefix: str | None, states: list[str] | None) -> list[tuple[str, Described]]:
    listed = [each.id for each in coordinator.list(states) if prefix is None or each.id.startswith(prefix)]
    described = [(id, coordinator.describe(id)) for id in listed]
    # Those that have ended have no start, and come last.
    known = [(id, told) for id, told in described if told is not None]
    return sorted(known, key=lambda each: (each[1].started < 0, each[1].started, each[0]))


@contextmanager
def _connected(servers: str, command_config: Path | None) -> Iterator[Coordinator]:
    """Problems are reported in one sentence, and end the command."""
    from beadline.connectors.kafka.coordinator import Coordinator
    from beadline.connectors.kafka.producers import producer_settings
    from beadline.errors import BeadlineError

    coordinator = None
    try:
        properties = _read(command_config) if command_config is not None else {}
        coordinator = Coordinator(producer_settings({**properties, "bootstrap.servers": servers}), patience=15)
        yield coordinator
    except (BeadlineError, OSError) as error:
        say(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    finally:
        if coordinator is not None:
            coordinator.close()


def _read(path: Path) -> dict[str, str]:
    """A properties file of Java, as Kafka's own tools take it."""
    lines = path.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    properties = {}
    for line in map(str.strip, lines):
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties


# -- how things look


def _as_data(told: Described) -> dict[str, Any]:
    return {**told._asdict(), "age": _age_of(told)}


def _age_of(told: Described) -> float | None:
    return None if told.started < 0 else max(0.0, round(time.time() - told.started / 1000, 3))


def _age(told: Described) -> str:
    age = _age_of(told)
    return "" if age is None else _seconds(age)


def _seconds(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.0f} s"
