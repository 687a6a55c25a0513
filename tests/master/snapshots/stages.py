"""A driver's side of a job without Spark: real sinks, files, checkpoints and storage; steps are made by hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from beadline.checkpoint.actions import (
    Action,
    Complete,
    Discard,
    FailJob,
    NotifyAborted,
    NotifyComplete,
    Rejected,
    Take,
    Triggered,
)
from beadline.checkpoint.coordinator import CheckpointCoordinator
from beadline.checkpoint.ends import End
from beadline.checkpoint.file_storage import FileJobStorage
from beadline.checkpoint.settings import CheckpointSettings, Storage
from beadline.checkpoint.snapshot import Snapshot
from beadline.connectors.files import RollingPolicy, RowFileSink
from beadline.errors import BeadlineError, JobExecutionError
from beadline.graph.plan import Plan
from beadline.graph.program import Program as WholeProgram
from beadline.graph.specs import SinkSpec
from beadline.master.events import Event, NotWritten, Prepared, Published, Written
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.home import Home
from beadline.master.snapshots.records import Records
from beadline.master.snapshots.savepoints import CanonicalSavepoints
from beadline.master.snapshots.sinks import Sinks
from beadline.master.threads import Threads
from beadline.master.upkeep.truth import Truth
from beadline.runtime.exporting import export
from beadline.runtime.messages import SubtaskAck
from beadline.state.files import RunFiles
from beadline.state.run import TableChanges, decode_run, encode_run, merge_contents
from beadline.state.store import open_store
from beadline.state.version import Handle, RunRef, checksum_of, next_version
from tests.graph.programs import Program, by, same

PROGRAM = WholeProgram("/jobs/count.py", (), "sums")


class AwaitedThreads(Threads):
    """Threads that can be waited for."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "test")
        self.begun: list[Future[Any]] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(*args, **kwargs)
        self.begun.append(future)
        return future


class TwiceCluster:
    """Publishes without Spark, and everything twice: publishing must bear that.

    :ivar fail: raised instead of publishing, if set
    :ivar calls: how many items were handed over
    """

    def __init__(self) -> None:
        self.fail: Exception | None = None
        self.calls = 0
        self.slots = 2
        self.groups: list[str] = []

    def explain(self, error: Exception) -> None:
        return None

    def cancel(self, group: str) -> None:
        pass

    def wait_until_quiet(self, group: str) -> None:
        pass

    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        self.groups.append(group)
        if self.fail is not None:
            raise self.fail
        results = []
        for item in items:
            self.calls += 1
            function(item)
            results.append(function(item))
        return results


def encode(record: Any) -> bytes:
    return f"{record}\n".encode()


def no_bucket(record: Any, now: int) -> str:
    return ""


def file_sink(folder: Path | str, policy: RollingPolicy | None = None) -> RowFileSink:
    """A part a checkpoint, unless the policy says something else."""
    return RowFileSink(str(folder), encode, no_bucket, policy or RollingPolicy(on_checkpoint=True))


def sink_plan(*sinks: RowFileSink, uids: tuple[str, ...] = ("sink", "second"), parallelism: int = 1) -> Plan:
    """Numbers are summed by key and written."""
    program = Program()
    source = program.source(uid="numbers")
    sums = program.function("reduce", max, (source, by(same)), max_parallelism=8, uid="sums")
    for sink, uid in zip(sinks, uids, strict=False):
        program.add(uid, SinkSpec(sink), sums, uid=uid)
    return program.plan(parallelism=parallelism)


def node_of(plan: Plan, uid: str) -> int:
    return next(node.id for node in plan.nodes.values() if node.uid == uid)


def staged(plan: Plan, rows: list[Any], uid: str = "sink", subtask: int = 0) -> SubtaskAck:
    """The acknowledgement of a sink's subtask that wrote these rows."""
    node = plan.nodes[node_of(plan, uid)]
    assert isinstance(node.spec, SinkSpec)
    stager = node.spec.sink.stager(subtask, 1, 0)
    stager.write(rows, None)
    return SubtaskAck(node.id, subtask, staged=stager.finish())


def rows_in(folder: Path | str) -> list[str]:
    """What a reader sees, sorted: neither hidden files nor hidden folders."""
    found: list[str] = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                found += Path(path, name).read_text().splitlines()
    return sorted(found)


def staged_files(folder: Path | str) -> list[str]:
    return [str(path) for path in Path(folder).glob(".staging-*/*/*")]


class Driver:
    """One driver of a job that counts: record ``i`` is row ``i`` of the output, and counted under its key.

    ``step`` seals a step, ``pump`` handles what the writing and publishing threads report. A driver that is dropped
    leaves what a killed process leaves: its files.
    """

    KEYS = 5

    def __init__(self, folder: Path, policy: RollingPolicy | None = None, **settings: Any) -> None:
        settings.setdefault("interval_ms", 1000)
        settings.setdefault("tolerable_failures", None)
        self.folder = folder
        self.settings = CheckpointSettings(
            storage=Storage.FILESYSTEM, directory=str(folder / "checkpoints"), **settings
        )
        self.plan = replace(sink_plan(file_sink(folder / "out", policy)), program=PROGRAM)
        self.home = Home(self.settings, "job", program=PROGRAM)
        self.cluster = TwiceCluster()
        self.inbox: SimpleQueue[Event] = SimpleQueue()
        self.now = 0
        assert isinstance(self.home.storage, FileJobStorage)
        self.lease = self.home.storage
        cluster: Any = self.cluster
        records = Records()
        self.sinks = Sinks(
            self.plan,
            cluster,
            self.home.storage,
            records,
            self.settings.exactly_once,
        )
        coordinator = CheckpointCoordinator(
            self.settings, next_id=self.home.next_id, completed=self.home.recovery_points()
        )
        self.savepoints = CanonicalSavepoints(cluster, "group")
        self.checkpoints = Checkpoints(
            coordinator, self.home, records, self.sinks, self.savepoints, lambda: self.now, self.inbox.put
        )
        self.threads = self.make_threads()
        self.checkpoints._writers, self.checkpoints._publisher = self.threads
        self.files = RunFiles(self.home.state_folder(1, True))
        self.source, self.sums = node_of(self.plan, "numbers"), node_of(self.plan, "sums")
        self.truth = self.new_truth()
        if self.home.start is not None:
            self.restore(self.home.start)
            self.do(self.checkpoints.restored(self.home.start.checkpoint_id, self.truth.step))
        else:
            self.do(self.checkpoints.started(0))

    def make_threads(self) -> tuple[Any, Any]:
        """For writing and for publishing."""
        return AwaitedThreads(self.settings.max_concurrent + 1), AwaitedThreads(1)

    def new_truth(self) -> Truth:
        truth = Truth(self.home.job_id, self.plan, self.files)
        truth.positions[self.source] = {"offset": 0}
        return truth

    @property
    def offset(self) -> int:
        return int(self.truth.positions[self.source]["offset"])

    def restore(self, snapshot: Snapshot) -> None:
        self.truth = self.new_truth()
        self.truth.restore(snapshot, self.files, 0, ignore_unclaimed=False, skip_in_flight=False)
        self.truth.book.own(path for path in self.truth.book.live_files() if self.checkpoints.registry.owns(path))
        self.lease.check()
        self.checkpoints.leave_behind(snapshot.checkpoint_id)
        self.sinks.restore({o.uid: o.committables for o in snapshot.operators if o.committables is not None})
        self.home.drop_orphans(set(self.truth.book.live_files()) | set(self.checkpoints.needed()))

    def go_back(self) -> None:
        """As after a failed attempt."""
        self.do(self.checkpoints.job_failed())
        self.checkpoints.quiet()
        pointers = self.checkpoints.pointers
        if pointers:
            self.restore(self.home.read(pointers[max(pointers)]))
            self.do(self.checkpoints.restored(max(pointers), self.truth.step))
        elif self.home.start is not None:
            self.restore(self.home.start)
            self.do(self.checkpoints.restored(None, self.truth.step))
        else:
            self.truth = self.new_truth()
            self.lease.check()
            self.checkpoints.leave_behind(0)
            self.sinks.restore({})
            self.do(self.checkpoints.restored(None, 0))

    # -- steps

    def step(self, count: int = 3, final: bool = False) -> None:
        """Read, count and write the next records, and seal."""
        number, start = self.truth.step + 1, self.offset
        records = list(range(start, start + count))
        self.do(self.checkpoints.step_started(number))
        acks = [SubtaskAck(self.source, 0, records_in=count), self._counted(records), staged(self.plan, records)]
        self.truth.seal(number, acks, {self.source: {"offset": start + count}})
        self.now += 10
        self.sinks.sealed(acks, self.now, final)
        self.do(self.checkpoints.step_sealed(number, final))

    def _counted(self, records: list[int]) -> SubtaskAck:
        counts = self.counts()
        changes = {record % self.KEYS: counts.get(record % self.KEYS, 0) for record in records}
        for record in records:
            changes[record % self.KEYS] += 1
        ack = SubtaskAck(self.sums, 0)
        data = encode_run({"n": TableChanges("value", False, dict(changes))}, 8)
        if data:
            version = next_version(self.truth.book.handles[self.sums, 0].version, data)
            ack.delta = RunRef(version, len(changes), len(data), path=self.files.write(f"{version}.run", data))
        return ack

    def merge_all(self) -> None:
        """Make one run of all: the running job needs none of the older files any more."""
        book, place = self.truth.book, (self.sums, 0)
        handle = book.handles[place]
        content = merge_contents(decode_run(self.files.read(run), run.key_groups) for run in handle.runs)
        data = encode_run(content, 8, by_key=True)
        run = self.files.store(f"{checksum_of(data)}{checksum_of(data)}.run", data, handle.version, len(content))
        book.handles[place] = Handle(handle.root, (run,))
        book.own([str(run.path)])
        self.drop_garbage()

    def counts(self) -> dict[int, int]:
        handle = self.truth.book.handles[self.sums, 0]
        return dict(open_store(None, handle, range(8), self.files.read).table("n", "value").base)

    def expected_counts(self) -> dict[int, int]:
        """Closed form."""
        return {k: n for k in range(self.KEYS) if (n := len(range(k, self.offset, self.KEYS)))}

    # -- checkpoints

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Triggered():
                    self.checkpoints.triggered(action)
                case Rejected():
                    action.request.fail(BeadlineError(action.reason.value))
                case Take():
                    exporter = lambda: lambda task: [export(each, self.now) for each in task]  # noqa: E731
                    self.checkpoints.taken(action, self.take(action), exporter)
                case Complete():
                    self.checkpoints.complete(action)
                case NotifyComplete():
                    self.checkpoints.completed(action.id)
                    self.checkpoints.publish(action.id)
                case NotifyAborted():
                    self.checkpoints.aborted(action)
                case Discard():
                    for id in action.ids:
                        self.drop_garbage(self.checkpoints.discard(id))
                case FailJob():
                    raise JobExecutionError(action.reason)

    def take(self, take: Take) -> Snapshot:
        return self.truth.snapshot(take, self.now, self.sinks.take(take.id, take.kind.commits), {})

    def drop_garbage(self, freed: frozenset[str] = frozenset()) -> None:
        self.truth.book.own(freed)
        self.home.delete(self.truth.book.garbage(self.checkpoints.needed()))

    def trigger(self) -> None:
        """The clock asks for a checkpoint; it is taken at once, because no step runs."""
        self.now += self.settings.interval_ms or 0
        self.do(self.checkpoints.tick())

    def written(self) -> Event:
        """What the writing thread says next, not handled yet."""
        event = self.inbox.get(timeout=20)
        while isinstance(event, Prepared):
            self.handle(event)
            event = self.inbox.get(timeout=20)
        assert isinstance(event, Written | NotWritten)
        return event

    def handle(self, event: Event) -> None:
        match event:
            case Prepared():
                self.do(self.checkpoints.prepared(event))
            case Written():
                self.do(self.checkpoints.written(event))
                if not event.savepoint:
                    self.truth.book.move_in(event.stored.snapshot.runs)
            case NotWritten():
                self.do(self.checkpoints.not_written(event))
            case Published():
                self.do(self.checkpoints.published(event))

    def pump(self) -> None:
        """Handle all that the threads report, until they have nothing to do."""
        writing = True
        while writing:
            for threads in self.threads:
                wait(threads.begun, timeout=20)
            wait([record.work for record in self.checkpoints._records if record.work is not None], timeout=20)
            writing = False
            while not self.inbox.empty():
                writing = True
                self.handle(self.inbox.get())

    def checkpoint(self) -> str:
        """Take one, and wait until its output is visible."""
        self.trigger()
        self.pump()
        pointers = self.checkpoints.pointers
        return pointers[max(pointers)]

    def close(self, end: End) -> bool:
        self.do(self.checkpoints.close(end))
        return self.checkpoints.is_resumable(end)

    def die(self) -> None:
        """What was handed to threads still happens, or has not begun; nobody hears of it."""
        self.lease.let_go()
        self.checkpoints._writers.shutdown(wait=True, cancel_futures=True)
        self.checkpoints._savers.shutdown(wait=True, cancel_futures=True)
        self.checkpoints._publisher.shutdown(wait=True, cancel_futures=True)
