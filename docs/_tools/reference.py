"""Writes the reference pages from the code: options, commands, REST paths. ``make reference`` runs it.

``python docs/_tools/reference.py`` writes ``docs/reference/*.md``. A test compares them with what the code says, so a
new option or command can't be forgotten.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "reference"
_NOTE = "<!-- Written by docs/_tools/reference.py from the code: change that, and run `make reference`. -->\n"


def configuration() -> str:
    """All options, group by group."""
    from beadline.datastream.environment.catalogue import OPTIONS

    groups: dict[str, list[Any]] = {}
    for option in OPTIONS:
        groups.setdefault(_group(option.key), []).append(option)
    parts = [_CONFIGURATION]
    for title, options in groups.items():
        parts.append(f"\n## {title}\n\n| option | takes | default | meaning |\n|---|---|---|---|\n")
        for option in options:
            older = "".join(f"<br>also `{name}`" for name in option.older_names)
            default = f"`{option.default}`" if option.default is not None else option.unset or "–"
            parts.append(f"| `{option.key}`{older} | {_cell(option.takes)} | {default} | {_cell(option.meaning)} |\n")
    return "".join(parts)


_GROUPS = {
    "execution.checkpointing.": "Checkpoints",
    "execution.state-recovery.": "Starting from a checkpoint or savepoint",
    "restart-strategy.": "Restarts",
    "state.backend.": "State backends",
    "beadline.rocksdb.": "State backends",
    "rest.": "REST and dashboard",
    "beadline.rest.": "REST and dashboard",
    "beadline.": "Beadline's own",
}


def _group(key: str) -> str:
    fitting = [prefix for prefix in _GROUPS if key.startswith(prefix)]
    return _GROUPS[max(fitting, key=len)] if fitting else "Jobs"


_CONFIGURATION = f"""{_NOTE}# Configuration

Options are Flink's where Flink has them, with the same names and values; older spellings work too. Beadline's own begin
with `beadline.`. They come from four places; the first that has an option counts:

1. the program: `env.enable_checkpointing(1000)`, `Configuration().set_string(…)`
2. the command line: `beadline run -D key=value`, `-p`, `-s`
3. files: `beadline.yaml` next to the script or in the current directory, then `beadline.yaml` and `config.yaml` in the
   folder that `BEADLINE_CONF_DIR` names. All are YAML, nested or with dotted keys
4. the default

`beadline config job.py` shows what holds for a program, and where each value comes from.

Durations are written as `10 s`, `500 ms`, `5 min`; sizes as `64 mb`. An option of Flink's that has no effect here is
named in a warning when a job starts. An unknown option of Beadline's own is an error.
"""


def commands() -> str:
    """All commands of ``beadline``, with their arguments and options."""
    import typer

    from beadline.cli.main import app

    parts = [_COMMANDS]
    for words, command in _walk(["beadline"], typer.main.get_command(app)):
        parts.append(f"\n## {' '.join(words)}\n\n{_sentences(command.help)}\n")
        parts.append(f"\n```\n{' '.join([*words, *_usage(command)])}\n```\n")
        rows = [
            row for parameter in command.params if not getattr(parameter, "hidden", False) for row in _row(parameter)
        ]
        if rows:
            parts.append("\n| | |\n|---|---|\n" + "".join(rows))
    return "".join(parts)


_COMMANDS = f"""{_NOTE}# Commands

What `--help` says, on one page. [The command line](../command-line.md) is the guide to it: exit codes, engines,
how jobs are named.
"""


def _walk(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    if command.hidden:
        return
    if not hasattr(command, "commands"):
        yield words, command
        return
    if command.params and words[1:] and command.invoke_without_command:
        yield words, command
    for name in sorted(command.commands):
        yield from _walk([*words, name], command.commands[name])


def _usage(command: Any) -> list[str]:
    context: Any = None
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    return [*(["[OPTIONS]"] if options else []), *(_metavar(argument, context) for argument in arguments)]


def _metavar(argument: Any, context: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _row(parameter: Any) -> Iterator[str]:
    text = _cell(_sentences(parameter.help or "")).replace("\n", " ")
    if parameter.param_type_name == "argument":
        yield f"| `{_metavar(parameter, None)}` | {text} |\n"
        return
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" `{parameter.metavar or parameter.type.name.upper()}`"
    default = ""
    if not parameter.is_flag and isinstance(parameter.default, (int, float, str)) and parameter.default != "":
        default = f" Default: `{parameter.default}`."
    yield f"| {names}{value} | {text}{default} |\n"


def _sentences(text: str | None) -> str:
    """Help as one paragraph per blank line; Typer's own marks are taken out."""
    paragraphs = re.split(r"\n\s*\n", (text or "").replace("\b", "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def rest() -> str:
    """All paths, by topic."""
    schema = _schema()
    topics: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            topic = (operation.get("tags") or ["other"])[0]
            needed = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
            query = f"<br>query: {', '.join(f'`{name}`' for name in needed)}" if needed else ""
            topics.setdefault(topic, []).append(
                f"| `{method.upper()}` | `{path}`{query} | {_cell(operation.get('summary', ''))} |\n"
            )
    parts = [_REST]
    for topic, rows in topics.items():
        parts.append(f"\n## {topic.capitalize()}\n\n| | path | answers |\n|---|---|---|\n{''.join(rows)}")
    return "".join(parts)


_REST = f"""{_NOTE}# REST

Paths, methods, field names and status codes are Flink's, so Flink's own command and scripts that were written for it
work. Every path may also begin with `/v1`. What Flink does not have is under `/jobs/{{jobid}}/beadline`. A running
driver shows this list, with the fields of all bodies, at `/api`, and for programs at `/openapi.json`.
[Operations](../operations.md#rest) says where the server is, and who may ask it.

Names in braces are parts of the path: a job's id, the id of an operator (`vertexid`), a number.
"""


def _schema() -> dict[str, Any]:
    """What a driver that runs nothing says of its paths."""
    import httpx

    from beadline.web.app import make_app
    from beadline.web.security import Rules

    app: Any = make_app(_NoJobs(), Rules(token=None))  # type: ignore[arg-type]

    async def ask() -> dict[str, Any]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return dict((await client.get("/openapi.json")).json())

    return asyncio.run(ask())


class _NoJobs:
    is_history = False

    def all(self) -> list[Any]:
        return []

    def get(self, job_id: str) -> None:
        return None

    master = get


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {"configuration.md": configuration, "commands.md": commands, "rest.md": rest}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
