"""A job as people see it from outside, as plain data: all that any page, answer or archive needs of one job.

A running job's record is made by :func:`beadline.web.live.record_of`; an ended job's archive is the same record as JSON
(:meth:`JobRecord.as_dict`, :meth:`JobRecord.from_dict`). What Flink's paths answer is computed from the record alone
(:mod:`beadline.web.answers`), so running and ended jobs are answered by one code.

Times are milliseconds since 1970, ``None`` for what has not come or is not known. A *vertex* is an operator of the
program; its id has 32 hexadecimal digits, as Flink's have. No secret is in a record: options, parameters and messages
are masked when it is made (:mod:`beadline.common.secrets`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import xxhash

from beadline.web.plain import Plain

#: The states that a job does not leave, by Flink's names; SUSPENDED is one, because this driver does not go on with it.
ENDED = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})

SOURCE, OPERATOR, SINK = "source", "operator", "sink"

_FLINK_ID = re.compile("[0-9a-f]{32}")


@dataclass
class Edge(Plain):
    """Where records come from.

    :ivar source: the id of the vertex that sends them
    :ivar ship_strategy: how they are dealt out: FORWARD, HASH, REBALANCE, …
    :ivar exchange: whether they travel between tasks; otherwise the two operators call each other
    """

    source: str
    input_index: int = 0
    ship_strategy: str = "FORWARD"
    exchange: bool = False
    tag: str | None = None


@dataclass
class Metrics(Plain):
    """Of the user's functions, by full name: those of a subtask, or added up over the whole job."""

    counters: dict[str, int] = field(default_factory=dict)
    meters: dict[str, dict[str, Any]] = field(default_factory=dict)
    distributions: dict[str, dict[str, Any]] = field(default_factory=dict)
    gauges: dict[str, Any] = field(default_factory=dict)


@dataclass
class Subtask(Plain):
    """One parallel instance of an operator. Totals are of the present execution, and count sealed steps only; rates are
    over the last seconds. Bytes are those that go between tasks.

    :ivar busy: the share of the last seconds in which it worked, from 0 to 1. Operators of one task are timed apart
    :ivar busy_ms: how long it has worked in all; ``idle_ms`` is the rest of the time since the execution began
    :ivar worker: the id of the worker that ran it last, see :class:`Worker`
    :ivar metrics: of the user's functions, ``None`` if they have none
    """

    index: int
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    bytes_in_per_second: float = 0.0
    bytes_out_per_second: float = 0.0
    busy: float = 0.0
    busy_ms: int = 0
    idle_ms: int = 0
    watermark: int | None = None
    keys: int = 0
    state_bytes: int = 0
    worker: str | None = None
    metrics: Metrics | None = None


@dataclass
class Vertex(Plain):
    """An operator.

    :ivar kind: ``source``, ``operator`` or ``sink``
    :ivar shape: what it does, in a word: ``map``, ``window``, …
    :ivar level: operators of one level run in the same tasks; records go to higher levels through exchanges
    :ivar backlog: of a source: how many records wait to be read; ``None`` if it can't say
    :ivar backlog_bytes: likewise in bytes
    """

    id: str
    name: str
    uid: str = ""
    kind: str = OPERATOR
    shape: str = ""
    level: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    keyed: bool = False
    inputs: list[Edge] = field(default_factory=list)
    subtasks: list[Subtask] = field(default_factory=list)
    backlog: int | None = None
    backlog_bytes: int | None = None

    @property
    def watermark(self) -> int | None:
        """The lowest of its subtasks, ``None`` if one has none yet."""
        found = [subtask.watermark for subtask in self.subtasks]
        return min((w for w in found if w is not None), default=None) if None not in found else None

    @property
    def busy(self) -> float:
        """The mean of its subtasks."""
        return sum(subtask.busy for subtask in self.subtasks) / len(self.subtasks) if self.subtasks else 0.0

    @property
    def counters(self) -> dict[str, int]:
        """The user's counters, added up over all subtasks."""
        found: dict[str, int] = {}
        for subtask in self.subtasks:
            for name, value in subtask.metrics.counters.items() if subtask.metrics is not None else ():
                found[name] = found.get(name, 0) + value
        return found

    def total(self, name: str) -> Any:
        """The sum of one number over all subtasks."""
        return sum(getattr(subtask, name) for subtask in self.subtasks)


@dataclass
class OperatorState(Plain):
    """What a checkpoint holds of one operator, by subtask.

    :ivar vertex: its id
    :ivar sizes: all the state that the checkpoint refers to, in bytes
    :ivar written: what of it is new since the checkpoint before
    """

    vertex: str
    sizes: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)


@dataclass
class Checkpoint(Plain):
    """A checkpoint or savepoint.

    :ivar type: in words: ``aligned checkpoint``, ``unaligned checkpoint``, ``savepoint``, ``savepoint on stop``, …
    :ivar status: IN_PROGRESS, COMPLETED or FAILED
    :ivar step: the step that it holds
    :ivar taken_at: when that step was sealed: until then it waited, which is its alignment
    :ivar size: what was written for it; ``full_size`` is all the state that it refers to
    :ivar in_flight: the running step that it has overtaken, if it is unaligned
    :ivar format: of a savepoint: CANONICAL or NATIVE
    :ivar discarded: it is not there any more, because newer ones have replaced it
    """

    id: int
    type: str = "aligned checkpoint"
    status: str = "IN_PROGRESS"
    savepoint: bool = False
    triggered_at: int = 0
    taken_at: int | None = None
    ended_at: int | None = None
    step: int | None = None
    size: int | None = None
    full_size: int | None = None
    in_flight: int | None = None
    path: str | None = None
    reason: str | None = None
    failure: str | None = None
    discarded: bool = False
    format: str | None = None
    operators: list[OperatorState] = field(default_factory=list)

    @property
    def duration_ms(self) -> int | None:
        return None if self.ended_at is None else self.ended_at - self.triggered_at

    @property
    def alignment_ms(self) -> int | None:
        return None if self.taken_at is None else self.taken_at - self.triggered_at


@dataclass
class CheckpointCounts(Plain):
    """Over the whole life of the job, also of those whose record is not kept any more."""

    triggered: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


@dataclass
class Failure(Plain):
    """An execution has failed.

    :ivar error: in a line; ``name`` is the class of what was raised, the user's if user code raised it
    :ivar traceback: the user's line on top, then the frames of the user's code, then the cause
    :ivar operator: the name of the operator that failed, if one did, with the ``subtask`` and ``worker`` if known
    :ivar restarted_from: where the next execution starts; ``None`` if there is none
    """

    at: int
    attempt: int = 1
    error: str = ""
    name: str = ""
    traceback: str = ""
    operator: str | None = None
    subtask: int | None = None
    record: str | None = None
    worker: str | None = None
    restarted_from: str | None = None


@dataclass
class Start(Plain):
    """An execution has started, from a checkpoint (``None`` for the beginning) that holds ``step``."""

    at: int
    attempt: int = 1
    checkpoint: int | None = None
    step: int = 0
    path: str | None = None
    savepoint: bool = False


@dataclass
class StatusChange(Plain):
    """The job has another status, by Flink's names, and with it the state of its life."""

    at: int
    status: str
    state: str = ""
    reason: str = ""


@dataclass
class Step(Plain):
    """A sealed step; ``tries`` is more than 1 if it had to be run again."""

    step: int
    at: int
    seconds: float = 0.0
    records: int = 0
    tries: int = 1
    state_bytes: int = 0
    watermark: int | None = None


@dataclass
class Worker(Plain):
    """A process that runs tasks.

    :ivar executor: of Spark; the process itself with the local engine
    """

    id: str
    executor: str = ""
    pid: int = 0
    host: str = "localhost"
    last_seen: int = 0


@dataclass
class CheckpointConfig(Plain):
    """How checkpoints are taken; times in milliseconds. ``tolerable_failures`` is ``None`` for any number."""

    enabled: bool = False
    interval_ms: int | None = None
    exactly_once: bool = True
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int | None = 0
    retained: int = 1
    retention: str = "NO_EXTERNALIZED_CHECKPOINTS"
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    after_tasks_finish: bool = True
    storage: str = "jobmanager"
    directory: str | None = None
    savepoint_directory: str | None = None
    history: int = 1000


@dataclass
class Settings(Plain):
    """How the job runs.

    :ivar options: what was set, by key, with secrets masked; ``origins`` is where: ``command line``, ``program``, or a
        file
    :ivar parameters: the job's own, for its functions, with secrets masked
    :ivar known: False for a job whose driver was killed: it has taken them along
    """

    known: bool = True
    batch: bool = False
    parallelism: int = 1
    restart_strategy: str = ""
    state_backend: str = ""
    options: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)


@dataclass
class JobRecord(Plain):
    """A job at one moment, ``now``.

    :ivar state: Flink's word for it: RUNNING, RESTARTING, FINISHED, …; ``life`` is ours, which is finer
    :ivar application: what Spark, and YARN with it, calls the application that it runs in
    :ivar attempt: the number of the present execution, from 1
    :ivar records: how many its sources have read in all, also before a restart of the driver
    :ivar rerun_steps: steps that were run again: because the engine gave up on one, or after a failure
    :ivar steps: the newest sealed ones, oldest first, as all lists here but ``checkpoints``: newest first
    """

    job_id: str
    name: str
    state: str = "CREATED"
    life: str = "created"
    now: int = 0
    started_at: int = 0
    ended_at: int | None = None
    version: str = ""
    engine: str = ""
    application: str | None = None
    slots: int = 1
    guarantee: str = ""
    script: str = ""
    arguments: list[str] = field(default_factory=list)
    pid: int = 0
    host: str = ""
    log: str | None = None
    step: int = 0
    records: int = 0
    records_per_second: float = 0.0
    watermark: int | None = None
    keys: int | None = 0
    state_bytes: int = 0
    attempt: int = 1
    restarts: int = 0
    rerun_steps: int = 0
    last_checkpoint: str | None = None
    error: str | None = None
    settings: Settings = field(default_factory=Settings)
    vertices: list[Vertex] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    counts: CheckpointCounts = field(default_factory=CheckpointCounts)
    failures: list[Failure] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    statuses: list[StatusChange] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def flink_id(self) -> str:
        """The job's id as Flink's look, with 32 hexadecimal digits, if a user has chosen another one."""
        return self.job_id if _FLINK_ID.fullmatch(self.job_id) else xxhash.xxh3_128_hexdigest(self.job_id.encode())

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def duration_ms(self) -> int:
        """From the start to the end, or to now."""
        return max(0, (self.ended_at if self.ended_at is not None else self.now) - self.started_at)

    @property
    def timestamps(self) -> dict[str, int]:
        """When this driver's job got each status last."""
        found = {"CREATED": self.started_at}
        found.update((change.status, change.at) for change in self.statuses if change.at >= self.started_at)
        return found

    def vertex(self, id: str) -> Vertex | None:
        return next((vertex for vertex in self.vertices if vertex.id == id), None)

    def checkpoint(self, id: int) -> Checkpoint | None:
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.id == id), None)
