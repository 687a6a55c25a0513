"""The commands of ``beadline``."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

import beadline
from beadline.cli import script as program
from beadline.cli.checkpoints import app as checkpoints_app
from beadline.cli.config import config
from beadline.cli.doctor import doctor
from beadline.cli.history import history
from beadline.cli.jobs import CancelCommand, cancel, list_jobs, status, stop
from beadline.cli.kafka import app as kafka_app
from beadline.cli.logs import logs
from beadline.cli.output import say
from beadline.cli.plan import plan
from beadline.cli.playground.command import playground
from beadline.cli.prepare import prepare
from beadline.cli.savepoint import app as savepoint_app
from beadline.cli.state import app as state_app
from beadline.cli.triggering import checkpoint
from beadline.master import engines
from beadline.master.reporting.telling import VERBOSE

app = typer.Typer(
    name="beadline",
    help="Run PyFlink DataStream programs on Apache Spark.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A script's exception is the user's: it is shown plainly, by run_program.
    pretty_exceptions_enable=False,
)
app.command("list")(list_jobs)
app.command()(status)
app.command()(logs)
app.command(cls=CancelCommand)(cancel)
app.command()(stop)
app.add_typer(savepoint_app)
app.add_typer(state_app)
app.add_typer(checkpoints_app)
app.command()(checkpoint)
# Options end at the script's name, so that options after it are the script's own.
app.command(context_settings={"allow_interspersed_args": False})(plan)
app.command(context_settings={"allow_interspersed_args": False})(config)
app.command()(doctor)
app.command()(history)
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
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What holds for every command."""


# Options end at the script's name, so that options after it are the script's own.
@app.command(context_settings={"allow_interspersed_args": False})
def run(
    script: Annotated[
        str | None, typer.Argument(metavar="SCRIPT", help="The Python program to run.", show_default=False)
    ] = None,
    args: program.Arguments = None,
    python: Annotated[
        str | None,
        typer.Option("-py", "--python", metavar="SCRIPT", help="The program, as Flink's command names it."),
    ] = None,
    python_files: Annotated[
        str | None,
        typer.Option("-pyfs", "--pyFiles", metavar="PATHS", help="python.files: modules for the program, by commas."),
    ] = None,
    python_requirements: Annotated[
        str | None,
        typer.Option(
            "-pyreq", "--pyRequirements", metavar="FILE[#DIR]", help="python.requirements: packages to install."
        ),
    ] = None,
    python_archives: Annotated[
        str | None,
        typer.Option("-pyarch", "--pyArchives", metavar="PATHS", help="python.archives: archives for the workers."),
    ] = None,
    detached: Annotated[
        bool,
        typer.Option("-d", "--detached", help="Start it as a process of its own, and return when its job runs."),
    ] = False,
    parallelism: program.Parallelism = None,
    pyflink: program.PyFlink = False,
    savepoint: Annotated[
        str | None,
        typer.Option(
            "-s",
            "--from-savepoint",
            "--fromSavepoint",
            metavar="PATH",
            help="Start from this checkpoint or savepoint. 'latest' is the newest checkpoint of this program's job, "
            "or of the job that -D beadline.job-id=ID names.",
        ),
    ] = None,
    allow_non_restored: program.AllowNonRestored = False,
    claim_mode: Annotated[
        str | None,
        typer.Option(
            "-cm",
            "--claim-mode",
            "--claimMode",
            metavar="MODE",
            help="Who owns the savepoint of -s: no_claim (you, the job leaves it alone) or claim (the job).",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What runs the job: spark (the default); resident: Spark's workers stay for the whole job, and steps "
            "take milliseconds (new); or local: this process does all the work, one task at a time, without Spark and "
            "Java. For a first look, tests, or a debugger.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Show whole tracebacks and Spark's log, like BEADLINE_VERBOSE=1."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Show only what the program prints, warnings and errors.")
    ] = False,
    define: program.Definitions = None,
) -> None:
    """Run a program. Options come before SCRIPT; everything after it is passed on untouched."""
    words = [word for word in (python, script) if word is not None] + (args or [])
    if not words:
        raise typer.BadParameter("name the program to run: beadline run [OPTIONS] SCRIPT [ARGS]")
    dependencies = {
        "python.files": python_files,
        "python.requirements": python_requirements,
        "python.archives": python_archives,
    }
    options = program.job_options(define or [], parallelism, dependencies)
    if savepoint is not None:
        options["execution.state-recovery.path"] = savepoint
    if allow_non_restored:
        options["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if claim_mode is not None:
        options["execution.state-recovery.claim-mode"] = claim_mode
    if engine is not None:
        if engine not in engines.ALL:
            raise typer.BadParameter(f"--engine {engine}: it must be one of {', '.join(engines.ALL)}.")
        options[engines.OPTION] = engine
    if verbose:
        os.environ[VERBOSE] = "1"
    path = Path(words[0])
    program.check_script(path)
    if not quiet:
        _hint_at_options_of_the_program(words[1:], {"-p": parallelism, "-s": savepoint, "-D": define})
    if detached:
        from beadline.cli.detached import submit

        flags = [*(["--pyflink"] if pyflink else []), *(["-v"] if verbose else []), *(["-q"] if quiet else [])]
        submit(path, flags, options, words)
        return
    from beadline.cli.detached import prepare_driver
    from beadline.cli.watching import watching

    options.update(prepare_driver())
    with watching(quiet):
        program.run_program(path, words[1:], options, pyflink, logging.WARNING if quiet else logging.INFO)
    _check_executed(path)


def _hint_at_options_of_the_program(words: list[str], given: dict[str, object]) -> None:
    """Options behind the program's name are its own; who wrote one of ours there may have meant us."""
    for option, value in given.items():
        meant = [word for word in words if word == option or (option == "-D" and re.match(r"-D[\w.-]+=", word))]
        if meant and value is None:
            say(
                f"note: {meant[0]} comes after the program's name, so it is passed on to the program. Options of "
                "beadline come before it.",
                err=True,
            )


def _check_executed(script: Path) -> None:
    """A program that runs none of its operators has failed; one that has run a job is warned of what is left."""
    unexecuted = sys.modules.get("beadline.datastream.environment.unexecuted")
    complaints = unexecuted.complaints() if unexecuted is not None else []
    ran = unexecuted is not None and unexecuted.executed
    for complaint in complaints:
        say(f"{'warning' if ran else 'error'}: {script}: {complaint}.", err=True)
    if complaints and not ran:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
