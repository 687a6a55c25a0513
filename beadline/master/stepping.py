"""Running one step until it can be sealed. The engine may give up on a step, or its acknowledgements may disagree: then
the same step is run again from the sealed version, which is no restart."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from beadline.errors import BeadlineError, JobExecutionError, StepError
from beadline.graph.plan import Plan
from beadline.master.engine import Deployment, Descriptor, Engine
from beadline.master.telling import first_line
from beadline.master.tries import OutOfTries, tried
from beadline.master.upkeep import seal
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.messages import RunContext, StepHeader, TaskAck
from beadline.runtime.short_tasks.migrating import Migrated, MigrationRequest, migrate_in_worker
from beadline.state.disks import is_full

_TRIES = 6
_WORKERS_DIE = (
    "A Python worker died each time: it ran out of memory, or a library crashed. Give workers more memory, "
    "run fewer at a time (-p), and look at what they wrote to standard error."
)


class Stepper:
    """Runs steps of one job in whatever thread calls it.

    :param cancelled: whether somebody wants the job to end at once
    :ivar sealed_at: the processing time of the last step that may be sealed; no later step has an earlier one
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        deployment: Deployment,
        cancelled: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._deployment = deployment
        self._cancelled = cancelled
        self._warn = warn
        self.sealed_at = 0
        self._given_up = False

    def run(self, header: StepHeader, inputs: list[Descriptor], book: StateBook) -> tuple[list[TaskAck], int]:
        """The acknowledgements of a step that may be sealed, and how many tries it took."""

        def run_once() -> list[TaskAck]:
            acks = self._deployment.run_step(header, inputs)
            seal.check(self._plan, acks, book.handles, book.states)
            return acks

        try:
            result = self._tried(f"step {header.step} is run", run_once)
        except OutOfTries as out:
            gave_up = _gave_up(header.step, out, self._engine)
            raise gave_up from (None if is_full(out.error) or gave_up is out.error else out.error)
        self.sealed_at = header.now
        return result

    def migrate(self, context: RunContext, now: int, requests: list[MigrationRequest]) -> list[Migrated]:
        """Rewrite state of changed types. Like a step it changes nothing that counts, and may be run again."""
        migrate = self._deployment.bind(migrate_in_worker, context, now)
        group, what = self._deployment.group, f"{self._plan.job_name}: migrate state"
        try:
            made: tuple[list[Migrated], int] = self._tried(
                "migrating state is tried", lambda: self._engine.run_each(migrate, requests, group, what)
            )
            return made[0]
        except OutOfTries as out:
            raise out.error from None

    def _tried(self, what: str, call: Callable[[], Any]) -> tuple[Any, int]:
        def again(number: int, error: Exception) -> None:
            self._warn(f"{what} again (try {number} of {_TRIES}): {first_line(error)}")
            self.quiet()

        return tried(call, _TRIES, self._engine, lambda: self._given_up or self._cancelled(), again)

    def begin(self) -> None:
        """An execution begins."""
        self._given_up = False

    def give_up(self) -> None:
        """The running step is not needed any more: it is not run again, and need not end."""
        self._given_up = True
        self._engine.cancel(self._deployment.group)

    def quiet(self) -> None:
        """No task of the job may be active before its work is done again."""
        self._engine.cancel(self._deployment.group)
        self._engine.wait_until_quiet(self._deployment.group)


def _gave_up(step: int, out: OutOfTries, engine: Engine) -> Exception:
    error = out.error
    if isinstance(error, BeadlineError) and not isinstance(error, StepError):
        return error
    often = f"{out.tries} times; the last time" if out.tries > 1 else "once"
    made = JobExecutionError(
        f"step {step} failed {often}: {first_line(error)}{engine.advice(error)}",
        full_traceback="".join(traceback.format_exception(error)),
    )
    if "exited unexpectedly" in str(error):
        made.add_note(_WORKERS_DIE)
    return made
