"""``beadline config``: the settings that hold, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beadline.cli import script as program
from beadline.cli.client import Address
from beadline.cli.ended import find_any
from beadline.cli.output import AsJson, console, plain, problems_told, show_json, table
from beadline.cli.up_to_execute import reach

if TYPE_CHECKING:
    from beadline.datastream.environment.catalogue import Option

DEFAULT = "default"


# Options end at the script's name, so that options after it are the script's own.
def config(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCRIPT|JOB]",
            help="A program, or a running job. Without it: what holds for a program of the current directory.",
            show_default=False,
        ),
    ] = None,
    args: program.Arguments = None,
    changed: Annotated[bool, typer.Option("-c", "--changed", help="Only what is set somewhere.")] = False,
    meanings: Annotated[
        bool, typer.Option("--meanings", help="Also what each option means, and what it takes.")
    ] = False,
    parallelism: program.Parallelism = None,
    pyflink: program.PyFlink = False,
    define: program.Definitions = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show the effective settings, and where each comes from: a file, the command line, the program, or the default.
    A program runs up to its execute(). Options come before SCRIPT."""
    from beadline.datastream.environment.catalogue import BY_KEY

    given = program.job_options(define or [], parallelism)
    with problems_told():
        set_, origins = _settings(target, args or [], given, pyflink, address)
    rows = [row for row in _rows(BY_KEY, set_, origins) if not changed or row["origin"] != DEFAULT]
    if as_json:
        show_json({"options": rows})
        return
    columns = ("option", "value", "from", *(("takes", "meaning") if meanings else ()))
    shown = table(*columns)
    for row in rows:
        style = "dim" if row["origin"] == DEFAULT else None
        more = (plain(row["takes"]), plain(row["meaning"])) if meanings else ()
        shown.add_row(plain(row["key"]), plain(row["value"]), plain(row["origin"]), *more, style=style)
    console().print(shown if rows else "Nothing is set: all options have their defaults.")


def _settings(
    target: str | None, args: list[str], given: dict[str, str], pyflink: bool, address: str | None
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What is set, and where."""
    from beadline.common import Configuration, outer_options
    from beadline.common.secrets import masked
    from beadline.datastream.environment.options import JOB_NAME
    from beadline.graph.program import DEFAULT_JOB_NAME

    if target is None:
        outer_options.set_overrides(given)
        merged = Configuration.from_dict({**outer_options.read_config_file(str(Path.cwd())), **given}).to_dict()
        return masked(merged), outer_options.origins(merged)
    script = Path(target)
    if address is None and (script.exists() or script.suffix == ".py"):
        reached = reach(script, args, given, pyflink)
        set_, origins = dict(masked(reached.settings.options)), dict(reached.settings.origins)
        if reached.plan.job_name not in (set_.get(JOB_NAME), DEFAULT_JOB_NAME):
            set_[JOB_NAME] = reached.plan.job_name  # execute("…") names it
            origins[JOB_NAME] = "program"
        return set_, origins
    told = find_any(target, address).get("/beadline/config")["options"]
    return {each["key"]: each["value"] for each in told}, {each["key"]: each["origin"] or "program" for each in told}


def _rows(known: Mapping[str, Option], set_: Mapping[str, str], origins: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """All known options by their present names, then what was set and is not known."""
    from beadline.common.configuration import known_keys

    current = {known_keys(key)[0]: key for key in set_}
    for key, option in known.items():
        name = current.pop(key, None)
        value = option.default if option.default is not None else option.unset and f"({option.unset})"
        yield {
            "key": key,
            "value": (value or "–") if name is None else set_[name],
            "origin": DEFAULT if name is None else origins.get(name, "program"),
            "takes": option.takes,
            "meaning": option.meaning,
        }
    for key, name in sorted(current.items()):
        told = {"key": key, "value": set_[name], "origin": origins.get(name, "program")}
        yield {**told, "takes": "", "meaning": "has no effect in this version"}
