"""``beadline doctor``: whether jobs can run here, and what to do if not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from beadline.cli import script as program
from beadline.cli.output import FAILED, AsJson, console, plain, problems_told, show_json

_SIGNS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def doctor(
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="Look for what this engine needs: spark or local.")
    ] = None,
    define: program.Definitions = None,
    as_json: AsJson = False,
) -> None:
    """Check Java, Spark, Python, packages, ports, directories and the clock, with the options that hold for a program
    of the current directory. The exit code is 0 if nothing stands in the way of a job."""
    from beadline.cli.examination import examine
    from beadline.common import Configuration, outer_options
    from beadline.master import engines

    options = program.job_options(define or [], None)
    with problems_told():
        configuration = Configuration.from_dict({**outer_options.read_config_file("."), **options})
        chosen = engines.chosen(engine or configuration.get_string(engines.OPTION, None))
        findings = examine(configuration, chosen)
    problems = sum(finding.status == "problem" for finding in findings)
    if as_json:
        show_json({"engine": chosen, "problems": problems, "findings": [asdict(finding) for finding in findings]})
    else:
        out = console()
        for finding in findings:
            sign, colour = _SIGNS[finding.status]
            out.print(f"[{colour}]{sign}[/{colour}] [bold]{finding.what:<16}[/bold] {plain(finding.found)}")
            if finding.advice:
                out.print(f"  {'':<16} → {plain(finding.advice)}")
        warnings = sum(finding.status == "warning" for finding in findings)
        noted = f" {warnings} thing{'s' if warnings > 1 else ''} to look at." if warnings else ""
        if problems:
            out.print(
                f"\n[red]{problems} problem{'s' if problems > 1 else ''}[/red] to solve before a job can run.{noted}"
            )
        else:
            out.print(f"\n[green]Jobs can run here[/green], on the engine '{chosen}'.{noted}")
    raise typer.Exit(FAILED if problems else 0)
