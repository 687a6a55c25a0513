"""The commands of ``beadline``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import beadline
from beadline.cli import script as program
from beadline.cli.checkpoints import app as checkpoints_app
from beadline.cli.kafka import app as kafka_app
from beadline.cli.playground.command import playground
from beadline.cli.prepare import prepare
from beadline.cli.savepoint import app as savepoint_app
from beadline.cli.state import app as state_app
from beadline.master import engines
from beadline.master.reporting.telling import VERBOSE

app = typer.Typer(
    name="beadline",
    help="Run PyFlink DataStream programs on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    # A script's exception is the user's: it is shown plainly, by run_program.
    pretty_exceptions_enable=False,
)
app.add_typer(savepoint_app)
app.add_typer(state_app)
app.add_typer(checkpoints_app)
app.add_typer(kafka_app)
app.command()(prepare)
app.command()(playground)


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


# Options end at the script's name, so that options after it are the script's own.
@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The Python program to run.")],
    args: program.Arguments = None,
    parallelism: program.Parallelism = None,
    pyflink: program.PyFlink = False,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--from-savepoint",
            metavar="PATH",
            help="Start from this checkpoint or savepoint. 'latest' is the newest checkpoint of this program's job, "
            "or of the job that -D beadline.job-id=ID names.",
        ),
    ] = None,
    allow_non_restored: program.AllowNonRestored = False,
    claim_mode: Annotated[
        str | None,
        typer.Option(
            "--claim-mode",
            metavar="MODE",
            help="Who owns the savepoint of -s: no_claim (you, the job leaves it alone) or claim (the job).",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What runs the job: spark (the default), or local: this process does all the work, one task at a "
            "time, without Spark and Java. For a first look, tests, or a debugger.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Show whole tracebacks and Spark's log, like BEADLINE_VERBOSE=1."),
    ] = False,
    define: program.Definitions = None,
) -> None:
    """Run a program. Options come before SCRIPT; everything after it is passed on untouched."""
    options = program.job_options(define or [], parallelism)
    if savepoint is not None:
        options["execution.state-recovery.path"] = savepoint
    if allow_non_restored:
        options["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if claim_mode is not None:
        options["execution.state-recovery.claim-mode"] = claim_mode
    if engine is not None:
        if engine not in engines.ALL:
            raise typer.BadParameter(f"--engine {engine}: it must be {' or '.join(engines.ALL)}.")
        options[engines.OPTION] = engine
    if verbose:
        os.environ[VERBOSE] = "1"
    program.run_program(script, args or [], options, pyflink)


if __name__ == "__main__":
    app()
