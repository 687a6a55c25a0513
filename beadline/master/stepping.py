"""Running one step until it can be sealed. The engine may give up on a step, or its acknowledgements may disagree: then
the same step is run again from the sealed version, which is no restart."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beadline.errors import (
    BeadlineError,
    ChannelError,
    ConfigurationError,
    EnvironmentSetupError,
    JobExecutionError,
    StateMismatchError,
    StepError,
    UnsupportedFeatureError,
    VersionError,
)
from beadline.graph.plan import Plan
from beadline.master.engines.engine import Deployment, Descriptor, Engine, OutOfTries, tried
from beadline.master.reporting.telling import first_line, folded, shortened, verbose, where_raised
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.failure import Failure
from beadline.runtime.messages import RunContext, StepHeader, TaskAck
from beadline.runtime.short_tasks.migrating import Migrated, MigrationRequest, migrate_in_worker
from beadline.state.disks import is_full
from beadline.state.operator.handles import OperatorStateHandle
from beadline.state.segments.version import KeyedStateHandle

_TRIES = 6
_WORKERS_DIE = (
    "A Python worker died each time: it ran out of memory, or a library crashed. Give workers more memory, "
    "run fewer at a time (-p), and look at what they wrote to standard error."
)
# These come again with every restart.
_LASTING = frozenset(
    kind.__name__ for kind in (ModuleNotFoundError, EnvironmentSetupError, ConfigurationError, UnsupportedFeatureError)
)


class Stepper:
    """Runs steps of one job in whatever thread calls it. ``sealed_at`` is the processing time of the last step that may
    be sealed; no later step has an earlier one."""

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
            check_acks(self._plan, acks, book.handles, book.states)
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


# -- may a step be sealed? Pure logic over its acknowledgements


def check_acks(
    plan: Plan,
    acks: Sequence[TaskAck],
    handles: Mapping[tuple[int, int], KeyedStateHandle],
    states: Mapping[tuple[int, int], OperatorStateHandle] | None = None,
) -> None:
    """Raise unless the acknowledgements describe one consistent execution of the step.

    1. every task acknowledged once
    2. all consumers of a task name one digest, and it is the one the task acknowledged
    3. no user code failed
    4. every subtask worked on the version its handle names, of keyed state and of operator state
    """
    by_task: dict[tuple[int, int], TaskAck] = {}
    for ack in acks:
        if (ack.level, ack.partition) in by_task:
            raise ChannelError(f"two acknowledgements of level {ack.level}, partition {ack.partition}")
        by_task[ack.level, ack.partition] = ack
    expected = {(level, p) for level in range(len(plan.levels)) for p in range(plan.width(level))}
    if by_task.keys() != expected:
        strangers = sorted(by_task.keys() - expected)
        if strangers:
            raise ChannelError(
                f"level {strangers[0][0]}, partition {strangers[0][1]} acknowledged and is not in the plan"
            )
        missing = sorted(expected - by_task.keys())
        raise ChannelError(f"{len(missing)} of {len(expected)} tasks did not acknowledge, the first is {missing[:1]}")
    for ack in acks:
        for upstream, digest in ack.consumed.items():
            if by_task[upstream].digest != digest:
                raise ChannelError(
                    f"level {ack.level}, partition {ack.partition} read another attempt of level {upstream[0]}, "
                    f"partition {upstream[1]} than the one that acknowledged"
                )
    for _, ack in sorted(by_task.items()):
        if ack.failure is not None:
            raise job_error(ack.failure, _said(by_task))
    for ack in acks:
        for subtask in ack.subtasks:
            handle = handles.get((subtask.node, subtask.subtask))
            if handle is not None and subtask.base_version != handle.version:
                raise VersionError(
                    f"{plan.nodes[subtask.node].name}[{subtask.subtask}] worked on version {subtask.base_version}, "
                    f"the step started from {handle.version}"
                )
            named = (states or {}).get((subtask.node, subtask.subtask))
            if named is not None and subtask.base_states != named.version:
                raise VersionError(
                    f"{plan.nodes[subtask.node].name}[{subtask.subtask}] worked on version {subtask.base_states} of "
                    f"its operator state, the step started from {named.version}"
                )


def _said(by_task: Mapping[tuple[int, int], TaskAck]) -> str:
    """What user code printed in a step that failed. Lines of print sinks are results, and are not part of it."""
    return "".join(text for _, ack in sorted(by_task.items()) for by_sink, text in ack.printed if not by_sink)


def job_error(failure: Failure, printed: str = "") -> BeadlineError:
    """The error that the user sees for a failure in a task."""
    if failure.error_type == StateMismatchError.__name__:
        return StateMismatchError(failure.message)
    made_at = f"{failure.made_at}, " if failure.made_at else ""
    where = f"operator '{failure.operator}' ({made_at}subtask {failure.subtask})"
    at = f" at record {shortened(failure.record, 160)}" if failure.record is not None else ""
    if failure.split is not None:
        at += f" while it read {failure.split}"
    error = JobExecutionError(
        f"{where} failed{at}: {failure.error_type}: {failure.message}",
        operator=failure.operator,
        record=failure.record,
        user_traceback=folded(failure.traceback),
        full_traceback=failure.traceback,
        culprit=failure.culprit,
        lasting=failure.error_type in _LASTING,
        subtask=failure.subtask,
        raised=failure.error_type,
    )
    error.printed = printed
    lines = [f"In the worker:\n{failure.traceback.rstrip()}"] if verbose() else where_raised(failure.traceback)
    if failure.error_type == ModuleNotFoundError.__name__:
        lines.append("Install the module for the workers' Python, or send it along with env.add_python_file().")
    if lines:
        error.add_note("\n".join(lines))
    return error
