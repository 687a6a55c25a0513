"""What the driver tells a task (a descriptor) and what a task tells the driver (an acknowledgement)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from beadline.runtime.failure import Failure
from beadline.state.backend_settings import BackendSettings
from beadline.state.description import StateDescription
from beadline.state.operator.handles import OperatorStateHandle
from beadline.state.segments.version import KeyedStateHandle, SegmentRef


@dataclass(frozen=True)
class RunContext:
    """What a worker must know about an execution of a job to run its tasks and to merge, export or migrate state.

    :ivar execution: its name; worker caches are keyed by it
    :ivar live: the executions of this session that still run; workers close and drop what they hold of others
    :ivar state_root: where files of state go
    :ivar inline_limit: state up to this size travels in the acknowledgement instead
    :ivar attempt: Flink's attempt number: how many executions of the job there were before
    :ivar codec: how files of state are compressed, None for not at all
    :ivar backend: where working state is kept
    """

    execution: str
    live: tuple[str, ...] = ()
    state_root: str = ""
    inline_limit: int = 0
    attempt: int = 0
    codec: str | None = None
    backend: BackendSettings = field(default_factory=BackendSettings)


@dataclass(frozen=True)
class StepHeader:
    """What all tasks of a step know.

    :ivar now: the step's processing time
    :ivar final: all input ends with this step
    :ivar base: the number of the snapshot that the step starts from: the step sealed before it, or what the job was
        restored from; None at the very beginning
    :ivar completed: checkpoints that completed since the last step, by the numbers of their steps, which functions
        know snapshots by
    :ivar aborted: likewise the checkpoints that were given up
    :ivar poison: records to leave out, see :mod:`beadline.runtime.task.poison`
    """

    context: RunContext
    step: int
    now: int
    final: bool = False
    base: int | None = None
    completed: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    poison: Any = None


@dataclass(frozen=True)
class PartState:
    """What a watermark strategy knows of one part of a source.

    :ivar watermark: how far the part is in event time
    :ivar idle: nothing has come from it for so long that it holds nobody back
    :ivar own: what else the strategy keeps of it
    """

    watermark: int
    idle: bool
    own: bytes


@dataclass(frozen=True)
class SubtaskInput:
    """What one operator subtask starts a step from.

    :ivar handle: the version of its keyed state
    :ivar local: its small own state: watermarks, and what the operator keeps between steps
    :ivar states: the version of its operator state; unions with the parts of all subtasks
    :ivar splits: for a source, what to read
    :ivar ended: for a source, whether its input ends with these splits
    :ivar caught_up: for a source, whether there is nothing more to read for now
    :ivar parts: for the watermark strategy of a source with parts: those that this subtask reads, with what is known of
        them; None if the source has no parts
    :ivar spare: all parts of the source are read by other subtasks
    :ivar waits: nothing was planned for the source, whatever there is to read: it is not idle
    :ivar waiting_parts: likewise some of its parts
    """

    handle: KeyedStateHandle | None = None
    local: bytes | None = None
    states: OperatorStateHandle | None = None
    splits: tuple[Any, ...] = ()
    ended: bool = False
    caught_up: bool = False
    parts: dict[str, PartState | None] | None = None
    spare: bool = False
    waits: bool = False
    waiting_parts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TaskInput:
    """The descriptor of one task."""

    level: int
    partition: int
    subtasks: dict[int, SubtaskInput]


@dataclass
class SubtaskAck:
    """What one operator subtask did in a step.

    :ivar records_out: how many records it has sent on, side outputs included
    :ivar bytes_in: how much it got from earlier levels, as ``bytes_out`` is what it sent to later ones
    :ivar delta: the segment that leads to its next state version, None if nothing changed
    :ivar base_version: the version it worked on
    :ivar base_states: the version of operator state that it worked on
    :ivar states: its operator state at the end of the step, None if it has none or nothing changed
    :ivar next_timer: when it wants a step next, in processing time
    :ivar touched: how many state entries it changed
    :ivar descriptions: its states, as far as functions have declared them
    :ivar idle: whether its output is marked as idle, for a watermark strategy
    :ivar parts: for the watermark strategy of a source with parts, what it knows of each
    """

    node: int
    subtask: int
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    base_version: str | None = None
    delta: SegmentRef | None = None
    base_states: str | None = None
    states: OperatorStateHandle | None = None
    local: bytes | None = None
    next_timer: int | None = None
    touched: int = 0
    keys: int = 0
    watermark: int | None = None
    metrics: Any = None
    collected: list[Any] = field(default_factory=list)
    staged: list[Any] = field(default_factory=list)
    changed_fields: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    descriptions: tuple[StateDescription, ...] = ()
    idle: bool = False
    parts: dict[str, PartState] = field(default_factory=dict)


@dataclass
class TaskAck:
    """The acknowledgement of one task.

    :ivar digest: of everything it sent
    :ivar sent_bytes: how much it sent to later levels
    :ivar consumed: for each upstream task (level, partition), the digest its barrier named
    :ivar printed: text in its order, and whether a print sink wrote it or user code
    :ivar busy: how long subtasks have worked in its process, see :mod:`beadline.runtime.task.stopwatch`
    """

    level: int
    partition: int
    digest: str = ""
    consumed: dict[tuple[int, int], str] = field(default_factory=dict)
    subtasks: list[SubtaskAck] = field(default_factory=list)
    failure: Failure | None = None
    skipped: bool = False
    sent_bytes: int = 0
    printed: list[tuple[bool, str]] = field(default_factory=list)
    executor: str = ""
    worker: int = 0
    seconds: float = 0.0
    busy: list[tuple[int, int, int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class MergeRequest:
    """Segments of one handle that are to become one, or some key groups of them.

    :ivar from_root: nothing lies below them
    :ivar groups: the key groups that this is about; None for all
    :ivar span: the number of the span; its parts are several requests
    """

    node: int
    subtask: int
    max_parallelism: int
    segments: tuple[SegmentRef, ...]
    from_root: bool
    groups: tuple[int, int] | None = None
    span: int = 0


@dataclass(frozen=True)
class MergeResult:
    """The merged segment. It gets its version when it is taken into a handle."""

    request: MergeRequest
    segment: SegmentRef
