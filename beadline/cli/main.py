"""The commands of ``beadline``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

import beadline
from beadline import pyflink_alias
from beadline.cli.failure import report_failure
from beadline.cli.script import run_script
from beadline.common.cli_defaults import PARALLELISM_KEY, set_overrides

app = typer.Typer(
    name="beadline",
    help="Run PyFlink DataStream programs on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    # A script's exception is the user's: it is shown plainly, by report_failure.
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"beadline {beadline.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What holds for every command."""


# Options end at the script's name, so that those behind it are the script's own.
@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The Python program to run.")],
    args: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Passed on to the program.")] = None,
    parallelism: Annotated[
        int | None, typer.Option("-p", "--parallelism", metavar="N", min=1, help="Default parallelism of the job.")
    ] = None,
    pyflink: Annotated[
        bool, typer.Option("--pyflink", help="Let the program's 'import pyflink' mean Beadline.")
    ] = False,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--from-savepoint",
            metavar="PATH",
            help="Go on from this checkpoint or savepoint; 'latest' for the newest checkpoint of the job.",
        ),
    ] = None,
    allow_non_restored: Annotated[
        bool,
        typer.Option("-n", "--allow-non-restored-state", help="Drop state that the program has no operator for."),
    ] = False,
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="Set an option of the job; may be repeated.")
    ] = None,
) -> None:
    """Run a program. Options come before SCRIPT; everything behind it is passed on untouched."""
    overrides = _parse_definitions(define or [])
    if parallelism is not None and overrides.setdefault(PARALLELISM_KEY, str(parallelism)) != str(parallelism):
        raise typer.BadParameter(
            f"-p {parallelism} and -D {PARALLELISM_KEY}={overrides[PARALLELISM_KEY]} disagree: give one of them."
        )
    if savepoint is not None:
        overrides["execution.state-recovery.path"] = savepoint
    if allow_non_restored:
        overrides["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if not script.is_file():
        what = "it is a directory" if script.is_dir() else "there is no such file"
        typer.echo(f"error: can't run {script}: {what}.", err=True)
        raise typer.Exit(2)

    set_overrides(overrides)
    _show_log()
    try:
        if pyflink:
            pyflink_alias.install()
        run_script(script, args or [])
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        report_failure(error, script)
        raise typer.Exit(1) from None


@app.command()
def demo(
    shifts: Annotated[
        int, typer.Option("--shifts", metavar="N", min=1, help="How long: a shift is 288,000 beads.")
    ] = 12,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="Kill the workers on the way.")] = True,
) -> None:
    """Count the beads of a necklace factory on a local Spark, and watch."""
    # Spark is imported when it is needed: the other commands answer at once.
    from beadline.cli.demo import run_demo

    raise typer.Exit(run_demo(shifts, kill))


def _show_log() -> None:
    """What Beadline has to say of a job goes to standard error, unless the script sets up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("beadline")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _parse_definitions(definitions: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for definition in definitions:
        key, equals, value = definition.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"-D {definition!r} is not of the form key=value.")
        options[key] = value
    return options


if __name__ == "__main__":
    app()
