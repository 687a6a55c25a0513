"""``beadline plan``: the operators of a program or a running job, as text, JSON or a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beadline.cli import drawing
from beadline.cli import script as program
from beadline.cli.client import Address, RunningJob
from beadline.cli.drawing import Box, Chart, Link
from beadline.cli.ended import EndedJob, find_any
from beadline.cli.output import CommandError, problems_told, say, show_json
from beadline.cli.up_to_execute import reach

if TYPE_CHECKING:
    from beadline.master.definition import ProgramReached


def plan(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT|JOB", help="A program, or a running job.", show_default=False)
    ],
    args: program.Arguments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print Flink's JSON.")] = False,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid diagram, as Markdown pages show.")
    ] = False,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Draw a picture into this file; - is standard output.")
    ] = None,
    parallelism: program.Parallelism = None,
    pyflink: program.PyFlink = False,
    define: program.Definitions = None,
    address: Address = None,
) -> None:
    """Show the plan of a program or a running job. A program runs up to its execute(). Options come before SCRIPT."""
    options = program.job_options(define or [], parallelism)
    script = Path(target)
    with problems_told():
        if address is None and (script.exists() or script.suffix == ".py"):
            reached = reach(script, args or [], options, pyflink)
            answer, chart = _json_of(reached), _chart_of_program(reached)
        else:
            job = find_any(target, address)
            answer = job.get("/plan")["plan"]
            chart = _chart_of_job(job, answer)
        if as_json:
            show_json(answer)
        elif mermaid:
            say(drawing.mermaid(chart))
        elif svg == "-":
            say(drawing.svg(chart))
        elif svg is not None:
            _write(Path(svg), drawing.svg(chart))
        else:
            say(drawing.text(chart))


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"the picture can't be written to {path}: {error.strerror}") from error
    say(f"The picture is in {path}")


def _json_of(reached: ProgramReached) -> Any:
    from beadline.graph.plan import execution_plan
    from beadline.master.reporting.guarantee import guarantee_of

    return json.loads(execution_plan(reached.plan, {}, guarantee=str(guarantee_of(reached.plan, reached.settings))))


def _chart_of_program(reached: ProgramReached) -> Chart:
    from beadline.graph.plan import is_sink
    from beadline.master.reporting.guarantee import guarantee_of

    nodes = sorted(reached.plan.nodes.values(), key=lambda node: (node.level, node.id))
    boxes = [
        Box(
            str(node.id),
            node.name,
            "source" if node.is_source else "sink" if is_sink(node) else "operator",
            node.level,
            node.parallelism,
            tuple(Link(str(e.source), type(e.partitioning).__name__.upper(), e.exchange) for e in node.inputs),
        )
        for node in nodes
    ]
    return Chart(reached.plan.job_name, boxes, f"guarantee: {guarantee_of(reached.plan, reached.settings)}")


def _chart_of_job(job: RunningJob | EndedJob, answer: dict[str, Any]) -> Chart:
    own = {vertex["id"]: vertex for vertex in job.get("/beadline/vertices")["vertices"]}
    boxes = []
    for node in answer["nodes"]:
        vertex = own.get(node["id"], {})
        level = vertex.get("level", 0)
        links = tuple(
            Link(link["id"], str(link["ship_strategy"]), own.get(link["id"], {}).get("level", level) != level)
            for link in node.get("inputs", [])
        )
        name = vertex.get("name") or node["description"]
        boxes.append(Box(node["id"], name, vertex.get("kind", "operator"), level, node["parallelism"], links))
    guarantee = job.get("/beadline").get("guarantee")
    return Chart(answer["name"], drawing.in_flow_order(boxes), f"guarantee: {guarantee}" if guarantee else "")
