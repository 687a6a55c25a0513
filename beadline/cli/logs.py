"""``beadline logs``: what a detached job has printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from beadline.cli.client import Job
from beadline.cli.ended import records
from beadline.cli.output import NO_SUCH_JOB, CommandError, problems_told
from beadline.master.client import registry
from beadline.master.client.registry import Entry, JobNotFoundError
from beadline.shown_text import printable

_POLL_SECONDS = 0.2
_CHUNK = 1 << 16


def logs(
    job: Job,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job ends.")] = False,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", metavar="N", min=0, help="Only the last N lines.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Pass on control characters, such as colours, to the terminal too.")
    ] = False,
    path_only: Annotated[bool, typer.Option("--path", help="Only say where the log is.")] = False,
) -> None:
    """Show the log of a job that was started with `beadline run -d`, also after its end. On a terminal control
    characters are made visible; files and programs get the log as it is."""
    with problems_told():
        path, entry = _find(job)
        if path_only:
            typer.echo(str(path))
            return
        on_terminal = sys.stdout.isatty()
        try:
            for text in _read(path, lines, (lambda: entry.is_alive) if follow and entry is not None else None):
                typer.echo(text if raw or not on_terminal else printable(text), nl=False)
        except OSError as error:
            raise CommandError(f"the log {path} can't be read: {error.strerror}") from error


def _find(text: str) -> tuple[Path, Entry | None]:
    """The log of a running job, or of one that has ended."""
    try:
        entry = registry.find(text)
    except JobNotFoundError as error:
        links = sorted((registry.state_directory() / "logs").glob(f"{_without_wildcards(text)}*.log"))
        found = [link for link in links if link.is_symlink() and link.exists()]
        if len(found) == 1:
            return found[0], None
        if found:
            shown = "\n".join(f"  {link.stem}" for link in found)
            raise CommandError(
                f"{text!r} may be any of these jobs; give more of the id:\n{shown}", NO_SUCH_JOB
            ) from None
        named = [record.log for record in records() if record.name == text and record.log and Path(record.log).exists()]
        if named:
            return Path(named[-1]), None
        raise CommandError(f"{error}\nNo ended job of that id or name has a log.", NO_SUCH_JOB) from None
    if entry.log is None:
        raise CommandError(
            f"job {entry.job_id} was not started with `beadline run -d`: what it prints is in its own terminal or "
            f"wherever its process, {entry.pid}, writes to."
        )
    return Path(entry.log), entry


def _without_wildcards(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum()) or "-"


def _read(path: Path, lines: int | None, goes_on: Callable[[], bool] | None) -> Iterator[str]:
    """The text of a file, from the last so many lines on; and what is added to it, while ``goes_on``."""
    with open(path, "rb") as stream:
        if lines is not None:
            stream.seek(_start_of_last(stream.read(), lines))
        while True:
            alive = goes_on is not None and goes_on()  # before reading: what came before the end is not missed
            data = stream.read(_CHUNK)
            if data:
                yield data.decode(errors="replace")
            elif not alive:
                return
            else:
                time.sleep(_POLL_SECONDS)


def _start_of_last(data: bytes, lines: int) -> int:
    if lines == 0:
        return len(data)
    at = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1
