"""Run a user's script the way ``python script.py`` runs it, with the options of the command line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Annotated, TypeAlias

import typer

from beadline import pyflink_alias
from beadline.cli.failure import report_failure
from beadline.common.cli_defaults import PARALLELISM_KEY, set_overrides
from beadline.errors import JobFinishedError

# What every command that runs a program takes.
Arguments: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Passed on to the program.")]
Parallelism: TypeAlias = Annotated[
    int | None, typer.Option("-p", "--parallelism", metavar="N", min=1, help="Default parallelism of the job.")
]
PyFlink: TypeAlias = Annotated[
    bool, typer.Option("--pyflink", help="Let the program's 'import pyflink' mean Beadline.")
]
AllowNonRestored: TypeAlias = Annotated[
    bool, typer.Option("-n", "--allow-non-restored-state", help="Drop state that the program has no operator for.")
]
Definitions: TypeAlias = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="Set an option of the job; may be repeated.")
]


def run_script(script: Path, args: Sequence[str]) -> None:
    """Run *script* as ``__main__``, with *args* as its arguments.

    1. Compile the file; a syntax error is raised before anything has changed.
    2. Put a fresh module in ``sys.modules['__main__']``. ``runpy`` would take it away again when the script ends, but
       threads of the script may live longer, and cloudpickle ships by value only what belongs to ``__main__``.
    3. Set ``sys.argv`` and ``sys.path[0]``, so that the script finds its arguments and its neighbours.
    4. Run it. Whatever it raises comes out unchanged.
    """
    path = str(script.absolute())
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)

    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = loader
    sys.modules["__main__"] = main

    sys.argv = [str(script), *args]
    if not sys.flags.safe_path:  # with `python -P` the first entry is no script's folder
        sys.path[0] = str(script.resolve().parent)

    exec(code, main.__dict__)


def run_program(script: Path, args: Sequence[str], options: dict[str, str], pyflink: bool) -> None:
    """Run a program with options of the command line; if it fails, report why and end the command."""
    if not script.is_file():
        what = "it is a directory" if script.is_dir() else "there is no such file"
        typer.echo(f"error: can't run {script}: {what}.", err=True)
        raise typer.Exit(2)
    set_overrides(options)
    _show_log()
    try:
        if pyflink:
            pyflink_alias.install()
        run_script(script, args)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except JobFinishedError as finished:
        # A supervisor that starts it again until it succeeds can stop.
        typer.echo(str(finished), err=True)
        raise typer.Exit(0) from None
    except Exception as error:
        report_failure(error, script)
        raise typer.Exit(1) from None


def job_options(definitions: Sequence[str], parallelism: int | None) -> dict[str, str]:
    """The options that ``-D`` and ``-p`` set."""
    options: dict[str, str] = {}
    for definition in definitions:
        key, equals, value = definition.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"-D {definition!r} is not of the form key=value.")
        options[key] = value
    if parallelism is not None and options.setdefault(PARALLELISM_KEY, str(parallelism)) != str(parallelism):
        raise typer.BadParameter(
            f"-p {parallelism} and -D {PARALLELISM_KEY}={options[PARALLELISM_KEY]} disagree: give one of them."
        )
    return options


def _show_log() -> None:
    """Beadline's log of a job goes to standard error, unless the script sets up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("beadline")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
