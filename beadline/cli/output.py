"""How commands answer: tables for people, JSON for programs, errors on standard error, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from beadline.errors import BeadlineError
from beadline.shown_text import printable, printable_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Exit codes, as docs/command-line.md lists them. 2 is Typer's own, for a command that can't be understood.
FAILED = 1
NO_SUCH_JOB = 3
UNREACHABLE = 4
INTERRUPTED = 130

_EPOCH = datetime.fromtimestamp(0, UTC)
_NO_WATERMARK, _LAST_WATERMARK = -(2**63), 2**63 - 1

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class CommandError(BeadlineError):
    """What a command can't do; ``code`` is what it exits with."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def say(text: str, err: bool = False) -> None:
    """Print lines. What comes from outside, such as names and errors, can't command the terminal."""
    typer.echo(printable(text), err=err)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say what went wrong, and end the command."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    say(message, err=True)
    raise typer.Exit(code)


@contextmanager
def problems_told(interrupted: str = "") -> Iterator[None]:
    """Errors that Beadline raises on purpose are told in a sentence, and end the command with their exit code.

    :param interrupted: what to say after Ctrl-C: whatever was asked for may go on
    """
    try:
        yield
    except CommandError as error:
        fail(str(error), error.code)
    except BeadlineError as error:
        fail(str(error))
    except KeyboardInterrupt:
        if interrupted:
            say(interrupted, err=True)
        raise typer.Exit(INTERRUPTED) from None


def show_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, default=str))


def console() -> Console:
    """For tables: as wide as the terminal; elsewhere lines are not cut."""
    from rich.console import Console

    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=1000)


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """A table without lines; the columns of ``right`` hold numbers."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def plain(text: object) -> str:
    """Text for a table: brackets are no markup, and control characters no commands to the terminal."""
    return printable_line(str(text)).replace("[", r"\[")


# -- numbers for people


def size(count: float | None) -> str:
    """Bytes, in the unit that leaves up to three digits before the point."""
    if count is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:,.0f} B" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def number(value: float | None) -> str:
    """Digits in groups of three; a fraction is shown for small numbers only."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"


def duration(milliseconds: float | None) -> str:
    """The two largest units of a time span."""
    if milliseconds is None:
        return "–"
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {seconds} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"


def moment(milliseconds: float | None) -> str:
    """A point in time, in UTC; as a number of milliseconds where the calendar ends. Flink's answers have -1 for a time
    that is not known."""
    if milliseconds is None or milliseconds == -1:
        return "–"
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return f"{int(milliseconds):,} ms"


def watermark(value: int | None) -> str:
    """How far event time is: a date if it can be one, and a word at the ends of its range."""
    if value is None or value <= _NO_WATERMARK:
        return "–"
    if value >= _LAST_WATERMARK:
        return "end of input"
    if abs(value) < 86_400_000 * 365:
        return f"{value:,} ms"  # a program with a clock of its own
    return moment(value)
