"""Run a user's script the way ``python script.py`` runs it, with the options of the command line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Annotated, TypeAlias

import typer

from beadline import pyflink_alias
from beadline.cli.output import say
from beadline.errors import BeadlineError, JobFinishedError
from beadline.master.reporting import telling

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


_NO_PYFLINK = (
    "To let 'import pyflink' mean Beadline, give --pyflink before the program: beadline run --pyflink {script} "
    "(under plain Python, before the first import: from beadline import pyflink_alias; pyflink_alias.install())."
)


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


def check_script(script: Path) -> None:
    """End the command if there is no such program."""
    if not script.is_file():
        what = "it is a directory" if script.is_dir() else "there is no such file"
        say(f"error: can't run {script}: {what}.", err=True)
        raise typer.Exit(2)


def run_program(
    script: Path, args: Sequence[str], options: dict[str, str], pyflink: bool, log_level: int = logging.INFO
) -> None:
    """Run a program with options of the command line; if it fails, report why and end the command."""
    from beadline.common.outer_options import set_overrides  # takes a while, and most commands run no program

    check_script(script)
    set_overrides(options)
    _show_log(log_level)
    hook = sys.excepthook
    try:
        if pyflink:
            pyflink_alias.install()
        _find_python_files(options)
        run_script(script, args)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except JobFinishedError as finished:
        # A supervisor that starts it again until it succeeds can stop.
        say(str(finished), err=True)
        raise typer.Exit(0) from None
    except Exception as error:
        report_failure(error, script, hook)
        raise typer.Exit(1) from None


def _find_python_files(options: Mapping[str, str]) -> None:
    """Let the program import its ``python.files`` from its first line on, as with Flink; jobs ship them later."""
    for name in options.get("python.files", "").split(","):
        path = Path(name.strip()).absolute()
        place = str(path.parent if path.suffix == ".py" else path)
        if name.strip() and path.exists() and place not in sys.path:
            sys.path.append(place)


def job_options(
    definitions: Sequence[str], parallelism: int | None, others: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """The options that ``-D`` and ``-p`` set, and others that have a switch of their own."""
    from beadline.common.outer_options import PARALLELISM_KEY

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
    for key, other in (others or {}).items():
        if other is not None and options.setdefault(key, other) != other:
            raise typer.BadParameter(f"{key} is given twice, as {other} and with -D as {options[key]}: give one.")
    return options


def _show_log(level: int) -> None:
    """Beadline's log of a job goes to standard error, unless the script sets up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(message)s"))
    logger = logging.getLogger("beadline")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


class _Lines(logging.Formatter):
    """Lines of the log without passwords, and without control characters: names of jobs and texts of errors are in
    them."""

    def format(self, record: logging.LogRecord) -> str:
        return telling.told(super().format(record))


def report_failure(error: Exception, script: Path, hook: object = None) -> None:
    """Print what a user needs to know of *error*, which came out of *script*, to standard error.

    A :class:`BeadlineError` is a message to the user, so the frames inside Beadline would only hide it. Anything else,
    and everything if the user asked for it, is shown as Python shows it, from the script's first frame on, but without
    passwords and control characters. A program that has set an ``excepthook``, which is not *hook*, the one before it
    ran, shows it itself.
    """
    tb = _from_script(error.__traceback__, script)
    if isinstance(error, ModuleNotFoundError) and error.name == "pyflink" and not telling.verbose():
        # There is nothing that PyFlink could be mixed up with: it isn't installed.
        first, *rest = telling.report(error, telling.line_of_user(tb))
        say("\n".join([f"error: {first}", *rest, _NO_PYFLINK.format(script=script)]), err=True)
        return
    if isinstance(error, BeadlineError) and not telling.verbose():
        first, *rest = telling.report(error, telling.line_of_user(tb))
        typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        say("\n".join([first, *rest]), err=True)
    else:
        error.with_traceback(tb)
        if sys.excepthook in (sys.__excepthook__, telling._hook, hook):
            say(telling.whole(error).rstrip("\n"), err=True)
        else:  # the program has one of its own
            sys.excepthook(type(error), error, error.__traceback__)


def _from_script(tb: TracebackType | None, script: Path) -> TracebackType | None:
    """The traceback without what lies above the script: the command and its libraries."""
    path = str(script.absolute())
    while tb is not None and tb.tb_frame.f_code.co_filename != path:
        tb = tb.tb_next
    return tb
