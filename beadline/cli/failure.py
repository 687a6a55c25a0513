"""Tell the user that a script failed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import typer

from beadline.errors import BeadlineError
from beadline.master.reporting import telling


def report_failure(error: Exception, script: Path) -> None:
    """Print what a user needs to know of *error*, which came out of *script*, to standard error.

    A :class:`BeadlineError` is a message to the user, so the frames inside Beadline would only hide it. Anything else,
    and everything if the user asked for it, is shown as Python shows it, from the script's first frame on.
    """
    tb = _from_script(error.__traceback__, script)
    if isinstance(error, BeadlineError) and not telling.verbose():
        first, *rest = telling.report(error, telling.line_of_user(tb))
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo("\n".join([first, *rest]), err=True)
    else:
        error.with_traceback(tb)
        sys.excepthook(type(error), error, error.__traceback__)


def _from_script(tb: TracebackType | None, script: Path) -> TracebackType | None:
    """The traceback without what lies above the script: the command and its libraries."""
    path = str(script.absolute())
    while tb is not None and tb.tb_frame.f_code.co_filename != path:
        tb = tb.tb_next
    return tb
