"""Tell the user of a script that failed."""

from __future__ import annotations

import sys
import traceback
from itertools import takewhile
from pathlib import Path
from types import TracebackType

import typer

import beadline
from beadline.errors import BeadlineError, JobExecutionError

_PACKAGE = Path(beadline.__file__).parent


def report_failure(error: Exception, script: Path) -> None:
    """Print what a user needs to know of *error*, which came out of *script*, to standard error.

    A :class:`BeadlineError` is a message to the user, so the frames inside Beadline would only hide it. Anything else
    is shown as Python shows it, from the script's first frame on.
    """
    if isinstance(error, BeadlineError):
        _report_beadline_error(error, script)
    else:
        error.with_traceback(_from_script(error.__traceback__, script))
        sys.excepthook(type(error), error, error.__traceback__)


def _report_beadline_error(error: BeadlineError, script: Path) -> None:
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(str(error) or type(error).__name__, err=True)
    line = _line_of_user(_from_script(error.__traceback__, script))
    if line is not None:
        typer.echo(f"  at {line.filename}, line {line.lineno}: {line.line}", err=True)
    if isinstance(error, JobExecutionError) and error.user_traceback:
        typer.echo(f"\n{error.user_traceback.rstrip()}", err=True)


def _line_of_user(tb: TracebackType | None) -> traceback.FrameSummary | None:
    """The line of the user's code that called Beadline."""
    outside = takewhile(lambda frame: not Path(frame.filename).is_relative_to(_PACKAGE), traceback.extract_tb(tb))
    # Frames of the import system have no source line.
    lines = [frame for frame in outside if frame.line]
    return lines[-1] if lines else None


def _from_script(tb: TracebackType | None, script: Path) -> TracebackType | None:
    """The traceback without what lies above the script: the command and its libraries."""
    path = str(script.absolute())
    while tb is not None and tb.tb_frame.f_code.co_filename != path:
        tb = tb.tb_next
    return tb
