"""Running a program only up to ``execute()``, to look at what it would run."""

from __future__ import annotations

from beadline.graph.plan import Plan
from beadline.master.settings import JobSettings


class ProgramReached(BaseException):
    """A program has come to its ``execute()``. Not an ``Exception``: the program is not to handle it."""

    def __init__(self, plan: Plan, settings: JobSettings) -> None:
        super().__init__(plan.job_name)
        self.plan = plan
        self.settings = settings


_stops = False


def stop_at_execute(stops: bool = True) -> None:
    """From now on, ``execute()`` raises :class:`ProgramReached` instead of running the job."""
    global _stops
    _stops = stops


def reached(plan: Plan, settings: JobSettings) -> None:
    """A job is about to start."""
    if _stops:
        raise ProgramReached(plan, settings)
