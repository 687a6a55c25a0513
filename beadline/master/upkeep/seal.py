"""May a step be sealed? Pure logic over its acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beadline.errors import (
    BeadlineError,
    ChannelError,
    ConfigurationError,
    EnvironmentSetupError,
    JobExecutionError,
    StateMismatchError,
    UnsupportedFeatureError,
    VersionError,
)
from beadline.graph.plan import Plan
from beadline.master.telling import folded, shortened, verbose, where_raised
from beadline.runtime.failure import Failure
from beadline.runtime.messages import TaskAck
from beadline.state.operator.handles import OperatorStateHandle
from beadline.state.segments.version import KeyedStateHandle

# These come again with every restart.
_LASTING = frozenset(
    kind.__name__ for kind in (ModuleNotFoundError, EnvironmentSetupError, ConfigurationError, UnsupportedFeatureError)
)


def check(
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
    where = f"operator '{failure.operator}' (subtask {failure.subtask})"
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
    )
    error.printed = printed
    lines = [f"In the worker:\n{failure.traceback.rstrip()}"] if verbose() else where_raised(failure.traceback)
    if failure.error_type == ModuleNotFoundError.__name__:
        lines.append("Install the module for the workers' Python, or send it along with env.add_python_file().")
    if lines:
        error.add_note("\n".join(lines))
    return error
