"""Numbers of a job's operators, subtask by subtask: what they read and sent, how long they worked, how far they are.

They come with the acknowledgements of sealed steps, and are added up in the job's own thread. A step costs one pass
over its acknowledgements; rates are computed when somebody asks, in the thread that asks, from samples that are taken
at most once a second. Totals are those of the present execution.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from beadline.api.metrics import MetricTotals
from beadline.graph.plan import Plan
from beadline.master.reporting.news import StepReport
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.messages import TaskAck

if TYPE_CHECKING:
    from beadline.master.execution import Sealed

# Rates are over about this time: over more if steps are longer, over less at the beginning.
_WINDOW_SECONDS = 5.0
_SAMPLE_SECONDS = 1.0
_SAMPLES = 16
_STEPS = 1000
_WORKERS = 256

Place = tuple[int, int]


@dataclass
class Numbers:
    """One value per subtask, in the order of :attr:`Progress.places`."""

    records_in: list[int]
    records_out: list[int]
    bytes_in: list[int]
    bytes_out: list[int]
    busy: list[float]

    @classmethod
    def zero(cls, size: int) -> Numbers:
        return cls([0] * size, [0] * size, [0] * size, [0] * size, [0.0] * size)

    def copy(self) -> Numbers:
        return Numbers(self.records_in[:], self.records_out[:], self.bytes_in[:], self.bytes_out[:], self.busy[:])


@dataclass(frozen=True)
class Rates:
    """What was added in the last ``seconds``, and what there is in all; ``elapsed``: since the execution began."""

    now: Numbers
    before: Numbers
    seconds: float
    elapsed: float

    def per_second(self, name: str, slot: int) -> float:
        now, before = getattr(self.now, name), getattr(self.before, name)
        return float(max(0, now[slot] - before[slot]) / self.seconds) if self.seconds > 0 else 0.0


@dataclass
class SeenWorker:
    """A process that has run tasks; ``at``: when it was heard of last, in milliseconds since 1970."""

    executor: str
    pid: int
    at: int = 0

    @property
    def id(self) -> str:
        return f"{self.executor}-{self.pid}"


@dataclass
class Progress:
    """:ivar places: node and subtask of each slot
    :ivar watermarks: by slot; None if none has come yet
    :ivar workers: by slot, the id of the process that ran it last, if known
    :ivar metrics: by slot, of the user's functions, if they have any
    :ivar steps: the newest sealed ones
    :ivar rerun_steps: how many steps were run again, or sealed again after a failure
    """

    plan: Plan
    clock: Callable[[], float] = time.monotonic
    places: list[Place] = field(init=False)
    watermarks: list[int | None] = field(init=False)
    workers: list[str | None] = field(init=False)
    seen: dict[str, SeenWorker] = field(default_factory=dict)
    metrics: dict[int, MetricTotals] = field(default_factory=dict)
    steps: deque[StepReport] = field(default_factory=lambda: deque(maxlen=_STEPS))
    rerun_steps: int = 0

    def __post_init__(self) -> None:
        nodes = self.plan.nodes.values()
        self.places = [(node.id, subtask) for node in nodes for subtask in range(node.parallelism)]
        self._slots = {place: slot for slot, place in enumerate(self.places)}
        self._sources = {node.id for node in nodes if node.is_source}
        self._last_step = 0
        self._begin()

    def _begin(self) -> None:
        size = len(self.places)
        self.watermarks, self.workers = [None] * size, [None] * size
        self._numbers = Numbers.zero(size)
        self._per_step = [0.0] * size
        self._began = self.clock()
        self._samples: deque[tuple[float, Numbers]] = deque([(self._began, Numbers.zero(size))], maxlen=_SAMPLES)

    # -- in the job's own thread

    def execution_begins(self, step: int) -> None:
        """Steps after this one are run again, if there were any."""
        self.rerun_steps += max(0, self._last_step - step)
        self._begin()

    def sealed(self, sealed: Sealed, report: StepReport) -> None:
        """A step has become the truth."""
        numbers, slots = self._numbers, self._slots
        for ack in sealed.subtasks:
            slot = slots[ack.node, ack.subtask]
            numbers.records_in[slot] += ack.records_in
            numbers.records_out[slot] += ack.records_out
            numbers.bytes_in[slot] += ack.bytes_in
            numbers.bytes_out[slot] += ack.bytes_out
            if ack.watermark is not None and ack.watermark != MIN_WATERMARK and ack.node not in self._sources:
                self.watermarks[slot] = ack.watermark
            if ack.metrics is not None and any(ack.metrics.values()):
                self._totals(slot).merge(ack.metrics)
        self._add_busy(sealed.acks, report.at)
        self.rerun_steps += sealed.tries - 1
        self._last_step = sealed.header.step
        self.steps.append(report)
        now = self.clock()
        if now - self._samples[-1][0] >= _SAMPLE_SECONDS:
            self._samples.append((now, numbers.copy()))

    def _totals(self, slot: int) -> MetricTotals:
        totals = self.metrics.get(slot)
        if totals is None:
            totals = self.metrics[slot] = MetricTotals()
        return totals

    def _add_busy(self, acks: Iterable[TaskAck], at: int) -> None:
        """Not every subtask is heard of in every step: until it is, it counts as it did last time."""
        for ack in acks:
            if not ack.busy:
                continue
            worker = self._saw(ack, at)
            for node, subtask, steps, seconds in ack.busy:
                slot = self._slots.get((node, subtask))
                if slot is not None:
                    self._per_step[slot] = seconds / steps
                    self.workers[slot] = worker
        self._numbers.busy = [total + more for total, more in zip(self._numbers.busy, self._per_step, strict=True)]

    def _saw(self, ack: TaskAck, at: int) -> str:
        worker = SeenWorker(ack.executor, ack.worker, at)
        self.seen.pop(worker.id, None)
        self.seen[worker.id] = worker  # the newest comes last
        if len(self.seen) > _WORKERS:
            del self.seen[next(iter(self.seen))]
        return worker.id

    # -- in any thread

    def rates(self) -> Rates:
        """The numbers now, compared with those of some seconds ago."""
        now, samples = self.clock(), list(self._samples)
        at, before = next((each for each in reversed(samples) if now - each[0] >= _WINDOW_SECONDS), samples[0])
        return Rates(self._numbers.copy(), before, now - at, now - self._began)
