"""Which guarantee a job has end to end: the weakest of its sources, the engine as it is set up, and its sinks."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec, PrintSpec, SinkSpec, SourceSpec
from beadline.master.definition import JobSettings

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
AT_MOST_ONCE = "at-most-once"
NONE = "none"

_LOG = logging.getLogger("beadline")
_STRENGTH = (NONE, AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)


@dataclass(frozen=True)
class Guarantee:
    """What a failure does to a job's results, and what weakens that."""

    level: str
    because: str

    def __str__(self) -> str:
        return f"{self.level} ({self.because})"


def guarantee_of(plan: Plan, settings: JobSettings) -> Guarantee:
    """The weakest link; at equal strength the first one from source to sink."""
    found = [_of_engine(settings)]
    for node in plan.nodes.values():
        spec = node.spec
        if isinstance(spec, SourceSpec):
            level = spec.source.guarantee()
            again = " can't give again what it gave before a failure" if level == AT_MOST_ONCE else ""
            found.append(Guarantee(level, f"source '{node.name}'{again}"))
        elif isinstance(spec, SinkSpec):
            found.append(Guarantee(spec.sink.guarantee(), f"sink '{node.name}'"))
        elif isinstance(spec, PrintSpec):
            found.append(Guarantee(AT_LEAST_ONCE, f"sink '{node.name}' prints lines of replayed records again"))
        elif isinstance(spec, CollectSpec):
            found.append(Guarantee(EXACTLY_ONCE, "collected with each checkpoint"))
    weakest = min(found, key=lambda guarantee: _STRENGTH.index(guarantee.level))
    if weakest.level == EXACTLY_ONCE:
        return Guarantee(EXACTLY_ONCE, "sources, engine and sinks")
    return weakest


_announced: set[Guarantee] = set()


def announce(job_name: str, job_id: object, guarantee: Guarantee) -> None:
    """Tell a user which guarantee a job has. A program that runs many jobs hears of each guarantee once."""
    level = logging.DEBUG if guarantee in _announced else logging.INFO
    _announced.add(guarantee)
    _LOG.log(level, "job '%s' %s, guarantee: %s", job_name, job_id, guarantee)


def _of_engine(settings: JobSettings) -> Guarantee:
    checkpoints = settings.checkpoints
    if checkpoints.enabled:
        if checkpoints.exactly_once:
            return Guarantee(EXACTLY_ONCE, "checkpoints")
        return Guarantee(AT_LEAST_ONCE, "execution.checkpointing.mode is AT_LEAST_ONCE")
    if settings.restart.restarts:
        return Guarantee(AT_MOST_ONCE, "no checkpoints: a restart goes on after the step that failed")
    return Guarantee(NONE, "no checkpoints and no restart strategy: a failure ends the job")
