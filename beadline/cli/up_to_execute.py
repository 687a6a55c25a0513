"""Programs that are run up to their ``execute()``, for what they would do: no job is started."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from beadline.cli import script as program
from beadline.cli.output import CommandError

if TYPE_CHECKING:
    from beadline.master.definition import ProgramReached


def reach(script: Path, args: list[str], options: dict[str, str], pyflink: bool) -> ProgramReached:
    """The plan and the settings of the first job of a program."""
    from beadline.master.definition import ProgramReached, stop_at_execute

    stop_at_execute()
    try:
        with contextlib.redirect_stdout(
            sys.stderr
        ):  # what the command answers is not mixed with what the program prints
            program.run_program(script, args, options, pyflink)
    except ProgramReached as reached:
        return reached
    finally:
        stop_at_execute(False)
    raise CommandError(f"{script} ended without execute(): there is no job.")
