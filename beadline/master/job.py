"""The job master's loop.

A step goes: ask the sources for a range, run the step on Spark, check the acknowledgements, seal. What is not sealed
never happened: the same step is run again from the last sealed version. After sealing, and only then, lines are
printed, records handed over and files published.
"""

from __future__ import annotations

import logging
import pickle
import re
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beadline.api.metrics import MetricTotals
from beadline.common.job_status import JobStatus
from beadline.connectors.sink import Committer, StagedSink
from beadline.connectors.source import StepSource
from beadline.errors import BeadlineError, ConfigurationError, JobExecutionError, StepError
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import CollectSpec, SinkSpec, SourceSpec, TimestampsSpec
from beadline.master import seal, shipping
from beadline.master.handles import StateBook
from beadline.master.merging import Merger
from beadline.master.pacing import Limits, Pacing
from beadline.master.progress import Listener, StepReport
from beadline.master.spark import Cluster, StepSubmitter
from beadline.runtime.messages import StepHeader, SubtaskAck, SubtaskInput, TaskAck, TaskInput
from beadline.state.files import RunFiles

_LOG = logging.getLogger("beadline")

# Spark ends Python workers that idle for a minute, and their cached state with them.
_KEEP_ALIVE_SECONDS = 45.0
_TRIES = 6

_live_runs: dict[str, None] = {}


@dataclass
class JobSettings:
    """How a job runs.

    :ivar state_dir: where runs of state are kept; a folder that all executors reach
    """

    batch: bool = False
    limits: Limits = field(default_factory=Limits)
    inline_limit: int = 20 << 10
    state_dir: str | None = None
    python_files: list[str] = field(default_factory=list)
    clock: Callable[[], int] = lambda: int(time.time() * 1000)


@dataclass
class _Source:
    node: PlanNode
    source: StepSource
    position: dict[str, Any]
    finished: bool = False
    caught_up: bool = False


class JobMaster:
    """Runs one job in a thread of its own."""

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        settings: JobSettings,
        on_collected: Callable[[str, list[Any]], None] | None = None,
        listeners: list[Listener] | None = None,
    ) -> None:
        self.plan = plan
        self.job_id = uuid.uuid4().hex
        self.metrics = MetricTotals()
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self.runtime_ms = 0
        self._cluster = cluster
        self._settings = settings
        self._on_collected = on_collected
        self._listeners = listeners or []
        self._cancelled = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"beadline-{plan.job_name}", daemon=True)
        self._pacing = Pacing(settings.limits)
        self._locals: dict[tuple[int, int], bytes] = {}
        self._timers: dict[tuple[int, int], int] = {}
        self._step = 0
        self._total_records = 0
        self._keys: dict[tuple[int, int], int] = {}
        self._warned: set[str] = set()
        self._has_event_time = any(isinstance(node.spec, TimestampsSpec) for node in plan.nodes.values())

    def __repr__(self) -> str:
        return (
            f"<Job '{self.plan.job_name}' {self.job_id} {self.status.name}: step {self._step}, "
            f"{self._total_records} records>"
        )

    # -- for the client

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop at once; the running step is dropped."""
        self._cancelled.set()
        self._cluster.cancel(self._group)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if it came."""
        return self._done.wait(timeout)

    @property
    def _group(self) -> str:
        return f"beadline-{self.job_id}"

    # -- the life of a job

    def _run(self) -> None:
        started = time.monotonic()
        try:
            self.status = JobStatus.RUNNING
            self._run_steps()
            self.status = JobStatus.CANCELED if self._cancelled.is_set() else JobStatus.FINISHED
        except BaseException as error:
            self.status = JobStatus.CANCELED if self._cancelled.is_set() else JobStatus.FAILED
            self.error = None if self._cancelled.is_set() else error
        finally:
            self.runtime_ms = int((time.monotonic() - started) * 1000)
            self._done.set()

    def _run_steps(self) -> None:
        for warning in self._cluster.warnings():
            self._warn(warning)
        shipping.ship_modules(self._cluster, self._settings.python_files)
        self._committers = self._prepare_sinks()
        sources = self._prepare_sources()
        shipment = self._cluster.broadcast(shipping.make_shipment(self.plan))
        _live_runs[self.job_id] = None
        with _StateDir(self._settings, self._cluster, self.job_id) as state_dir:
            self._files = RunFiles(state_dir)
            self._book = StateBook(self.job_id, self.plan, self._files)
            submitter = StepSubmitter(self._cluster, self.plan, shipment, self._group)
            merger = Merger(self._cluster, submitter, lambda: self._header(0, False))
            try:
                self._loop(sources, submitter, merger)
            finally:
                merger.close()
                _live_runs.pop(self.job_id, None)
                for entry in sources:
                    entry.source.stop()
                for committer in self._committers.values():
                    committer.close()
                submitter.close()
                self._cluster.say_farewell(tuple(_live_runs))

    def _prepare_sinks(self) -> dict[int, Committer]:
        committers = {}
        for node in self.plan.nodes.values():
            if isinstance(node.spec, SinkSpec):
                sink: StagedSink = node.spec.sink
                sink.prepare(self.job_id)
                committers[node.id] = sink.committer()
        return committers

    def _prepare_sources(self) -> list[_Source]:
        sources = []
        for node in self.plan.nodes.values():
            if isinstance(node.spec, SourceSpec):
                source: StepSource = node.spec.source
                source.prepare(self._settings.batch)
                if self._settings.batch and not source.bounded:
                    raise ConfigurationError(
                        f"source '{node.name}' never ends, which batch mode does not allow; use "
                        "RuntimeExecutionMode.STREAMING"
                    )
                position = source.initial()
                sources.append(_Source(node, source, position, source.finished(position)))
        if not sources:
            raise ConfigurationError("the program has no source")
        return sources

    # -- steps

    def _loop(self, sources: list[_Source], submitter: StepSubmitter, merger: Merger) -> None:
        last_step = 0.0
        while not self._cancelled.is_set():
            ends, splits = self._next_ranges(sources)
            final = all(entry.finished for entry in sources)
            now = self._settings.clock()
            due = min(self._timers.values(), default=None)
            idle = time.monotonic() - last_step
            has_data = any(splits.values())
            if not (has_data or final or (due is not None and due <= now) or idle >= _KEEP_ALIVE_SECONDS):
                poll = min(entry.source.poll_interval() for entry in sources if not entry.finished)
                self._cancelled.wait(poll if due is None else min(poll, max(0.001, (due - now) / 1000)))
                continue
            self._take_step(sources, submitter, splits, now, final)
            for entry in sources:
                entry.position = ends[entry.node.id]
            last_step = time.monotonic()
            if final:
                return
            if merger.idle:
                self._book.take_merges(merger.results())
                self._book.drop_garbage()
                merger.submit(self._book.merges())

    def _next_ranges(self, sources: list[_Source]) -> tuple[dict[int, dict[str, Any]], dict[int, list[Any]]]:
        ends: dict[int, dict[str, Any]] = {}
        splits: dict[int, list[Any]] = {}
        active = [entry for entry in sources if not entry.finished] or sources
        rows = max(1, self._pacing.rows // len(active))
        for entry in sources:
            node = entry.node.id
            if entry.finished:
                ends[node], splits[node] = entry.position, []
                continue
            ends[node], splits[node] = entry.source.plan(entry.position, rows, entry.node.parallelism)
            if entry.source.finished(ends[node]):
                entry.finished = entry.caught_up = True
            elif self._has_event_time:
                # Is there anything behind this range? If not, the watermark need not wait for more records.
                entry.caught_up = entry.source.plan(ends[node], 1, 1)[0] == ends[node]
        return ends, splits

    def _take_step(
        self, sources: list[_Source], submitter: StepSubmitter, splits: dict[int, list[Any]], now: int, final: bool
    ) -> None:
        """Run a step until it can be sealed, then seal it."""
        self._step += 1
        header = self._header(now, final)
        inputs = self._inputs(sources, splits)
        started = time.monotonic()
        for attempt in range(1, _TRIES + 1):
            try:
                acks = submitter.run(header, inputs)
                seal.check(self.plan, acks, self._book.handles)
                break
            except JobExecutionError:
                raise
            except Exception as error:
                if self._cancelled.is_set() or attempt == _TRIES or not _worth_another_try(error):
                    raise self._gave_up(error, attempt) from error
                self._warn(f"step {self._step} is run again (try {attempt} of {_TRIES}): {_first_line(error)}")
                self._cluster.cancel(self._group)
                self._cluster.wait_until_quiet(self._group)
        self._seal(acks, header, time.monotonic() - started, attempt)

    def _header(self, now: int, final: bool) -> StepHeader:
        root = self._files.root
        return StepHeader(self.job_id, self._step, now, final, tuple(_live_runs), root, self._settings.inline_limit)

    def _inputs(self, sources: list[_Source], splits: dict[int, list[Any]]) -> list[tuple[int, int, bytes]]:
        """The descriptors of all tasks of a step."""
        by_source = {entry.node.id: entry for entry in sources}
        inputs = []
        for level in range(len(self.plan.levels)):
            for partition in range(self.plan.width(level)):
                subtasks = {}
                for node in self.plan.nodes_of(level, partition):
                    entry = by_source.get(node.id)
                    subtasks[node.id] = SubtaskInput(
                        handle=self._book.handles.get((node.id, partition)),
                        local=self._locals.get((node.id, partition)),
                        splits=tuple(splits[node.id][partition :: node.parallelism]) if entry else (),
                        ended=entry.finished if entry else False,
                        caught_up=all(by_source[s].caught_up for s in self._sources_of(node)),
                    )
                inputs.append((level, partition, pickle.dumps(TaskInput(level, partition, subtasks), 5)))
        return inputs

    def _sources_of(self, node: PlanNode) -> set[int]:
        if node.is_source:
            return {node.id}
        return set().union(*(self._sources_of(self.plan.nodes[edge.source]) for edge in node.inputs))

    def _gave_up(self, error: Exception, attempt: int) -> BaseException:
        if isinstance(error, BeadlineError) and not isinstance(error, StepError):
            return error
        return JobExecutionError(f"step {self._step} failed {attempt} times; the last time: {_first_line(error)}")

    # -- sealing

    def _seal(self, acks: list[TaskAck], header: StepHeader, seconds: float, tries: int) -> None:
        """The step is consistent: make it the new truth, then show its results.

        1. move handles and small state to the new versions
        2. print lines, hand over collected records
        3. publish what sinks have due
        4. learn the pace, report
        """
        subtasks = sorted((s for ack in acks for s in ack.subtasks), key=lambda s: (s.node, s.subtask))
        self._book.advance(((s.node, s.subtask), s.delta) for s in subtasks if s.delta is not None)
        records = 0
        for ack in subtasks:
            key = (ack.node, ack.subtask)
            if ack.local is not None:
                self._locals[key] = ack.local
            self._timers.pop(key, None)
            if ack.next_timer is not None:
                self._timers[key] = ack.next_timer
            if self.plan.nodes[ack.node].is_source:
                records += ack.records_in
            self._keys[key] = ack.keys
        self._total_records += records
        self._show(subtasks)
        self._publish(subtasks, header)
        touched = sum(s.touched for s in subtasks)
        self._pacing.sealed(records, seconds, touched, sum(ack.sent_bytes for ack in acks))
        self._report(acks, subtasks, header, seconds, tries, records, touched)

    def _show(self, subtasks: list[SubtaskAck]) -> None:
        for ack in subtasks:
            node = self.plan.nodes[ack.node]
            if ack.lines:
                sys.stdout.write("\n".join(ack.lines) + "\n")
                sys.stdout.flush()
            if ack.collected and isinstance(node.spec, CollectSpec) and self._on_collected is not None:
                self._on_collected(node.spec.collector, ack.collected)
            if ack.metrics is not None:
                self.metrics.merge(ack.metrics)
            for name in ack.changed_fields:
                self._warn(
                    f"operator '{node.name}': the field {name} changed while records were processed. "
                    "Fields are not state: they are "
                    "lost with the worker and not restored after a failure. Keep it in a state from "
                    "runtime_context.get_state(…), or, if it is a cache or a connection, set it up in open()."
                )

    def _publish(self, subtasks: list[SubtaskAck], header: StepHeader) -> None:
        for node_id, committer in self._committers.items():
            pieces = [piece for s in subtasks if s.node == node_id for piece in s.staged]
            due = committer.sealed(pieces, header.now, header.final)
            if due:
                self._cluster.in_group(
                    self._group, f"{self.plan.job_name}: publish files of '{self.plan.nodes[node_id].name}'"
                )
                self._cluster.run_each(committer.publisher(), due)

    def _report(
        self,
        acks: list[TaskAck],
        subtasks: list[SubtaskAck],
        header: StepHeader,
        seconds: float,
        tries: int,
        records: int,
        touched: int,
    ) -> None:
        watermarks = [
            s.watermark for s in subtasks if s.watermark is not None and not self.plan.nodes[s.node].is_source
        ]
        last = len(self.plan.levels) - 1
        report = StepReport(
            self.plan.job_name,
            header.step,
            records,
            self._total_records,
            seconds,
            sum(self._keys.values()),
            touched,
            self._book.size,
            min(watermarks, default=None),
            tries,
            header.final,
            {ack.partition: ack.executor for ack in acks if ack.level == last},
            {ack.partition: ack.worker for ack in acks if ack.level == last},
        )
        for listener in self._listeners:
            try:
                listener(report)
            except Exception as error:
                self._warn(f"a step listener raised {error!r}; the job goes on")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _LOG.warning("%s", text)


class _StateDir:
    """The folder for runs of state: the configured one, or a temporary one if all workers are on this machine."""

    def __init__(self, settings: JobSettings, cluster: Cluster, job_id: str) -> None:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if settings.state_dir is not None:
            self.path = f"{settings.state_dir.rstrip('/')}/{job_id}/shared"
            if "://" not in self.path or self.path.startswith("file://"):
                Path(self.path.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
        elif cluster.one_machine:
            self._temporary = tempfile.TemporaryDirectory(prefix="beadline-state-", ignore_cleanup_errors=True)
            self.path = self._temporary.name
        else:
            raise ConfigurationError(
                "the job runs on a cluster and has no folder for its state that all executors reach: "
                "set execution.checkpointing.dir to one (hdfs://, s3:// or a shared mount)"
            )

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def _worth_another_try(error: Exception) -> bool:
    """What Spark or a check gave up on; errors of the program or the set-up itself come the same way every time."""
    if "beadline.errors.EnvironmentSetupError" in str(error):
        return False
    return isinstance(error, StepError) or not isinstance(error, BeadlineError)


def _first_line(error: Exception) -> str:
    """The telling line of an error: the last ``SomethingError: …`` of a traceback that came from a worker or the JVM,
    if there is one."""
    lines = [re.sub("^(: |Caused by: )", "", line.strip()) for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b.*:", line)]
    return (raised[-1] if raised else lines[0] if lines else type(error).__name__)[:500]
