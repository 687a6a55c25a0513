"""Drivers in processes of their own that do what a test tells them, one command at a time, until they end or are
killed.

They run the shipped job master on the local engine, with real files. A command returns when everything that follows
from it has happened, so that a test knows what there must be. A driver dies by SIGKILL: between two commands, or in
the middle of one, at a point of :data:`tests.master.snapshots.drivers.POINTS`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.restart import FixedDelay
from beadline.checkpoint.settings import CheckpointSettings, Retention, Storage
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.files import RollingPolicy, RowFileSink
from beadline.connectors.transactions import TransactionalSink
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master.definition import JobSettings
from beadline.master.job import JobMaster
from beadline.master.reporting.news import StepReport
from beadline.master.snapshots.records import Phase
from tests.connectors.transactions.ledger import Ledger
from tests.master.snapshots.drivers import _CONTEXT, Drive, Points, Trap
from tests.master.snapshots.local_jobs import Clock, Numbers, counting_plan, no_bucket
from tests.master.snapshots.troubles import PATIENCE_SECONDS, TwiceEngine, fails, until


class Died(Exception):
    """The driver was killed before it answered."""


class Refused(Exception):
    """The driver would not start the job."""


@dataclass(frozen=True)
class Target:
    """Where a sink writes, and how.

    :ivar system: ``files``, or a system outside: ``ledger``, ``kafka``, ``postgres``
    :ivar place: a folder, topic or table
    :ivar rolls: parts are complete at checkpoints; else at the end of the input
    :ivar url: of the server
    :ivar partition: of the topic
    """

    place: str
    prefix: str = "part"
    suffix: str = ""
    rolls: bool = True
    system: str = "files"
    url: str = ""
    partition: int = 0


@dataclass(frozen=True)
class Order:
    """What a driver is started with.

    :ivar targets: of its sinks, by ``sink`` and ``second``; the latter may be missing
    :ivar tag: begins the rows that this driver writes
    """

    root: str
    directory: str
    job_id: str | None
    path: str | None
    targets: dict[str, Target]
    tag: str
    parallelism: int = 1
    traps: tuple[Trap, ...] = ()


class Commanded:
    """The test's end: each call is a command to the driver."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._pipe, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(order, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.job_id: str = self._answer()

    def __repr__(self) -> str:
        return f"<driver {self.order.tag} of {self.order.directory}>"

    def do(self, command: str, *arguments: Any, trap: Trap | None = None) -> Any:
        """:raises Died: it came to the trap"""
        try:
            self._pipe.send((command, arguments, trap))
        except OSError:
            raise Died from None
        return self._answer()

    def _answer(self) -> Any:
        try:
            assert self._pipe.poll(3 * PATIENCE_SECONDS), f"{self!r} hangs"
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE_SECONDS)
            assert self.process.exitcode == -signal.SIGKILL, f"{self!r} ended with {self.process.exitcode}"
            raise Died from None
        if kind == "refused":
            raise Refused(value)
        assert kind == "done", value
        return value

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(order: Order, pipe: Connection) -> None:
    """The whole life of a driver's process."""
    logging.getLogger("beadline").setLevel(logging.CRITICAL)
    os.fsync = lambda descriptor: None  # type: ignore[assignment]  # processes die here, not machines
    points = Points(Drive(Path(order.root), traps=order.traps))
    points.install()
    job = _Job(order, points)
    try:
        job.begin()
    except (BeadlineError, OSError) as refusal:
        pipe.send(("refused", f"{type(refusal).__name__}: {refusal}"))
        os._exit(0)
    points.set(())
    pipe.send(("done", job.master.home.job_id))
    while True:
        try:
            command, arguments, trap = pipe.recv()
        except EOFError:
            os._exit(0)
        points.set(() if trap is None else (trap,))
        try:
            answer = ("done", getattr(job, command)(*arguments))
        except BaseException as error:
            answer = ("failed", f"{command}{arguments}: {error!r}; {job.master!r}: {job.master.error!r}")
        points.set(())
        with contextlib.suppress(OSError):
            pipe.send(answer)


class _Job:
    """What the commands do."""

    def __init__(self, order: Order, points: Points) -> None:
        self._order, self._points = order, points
        self._source = Numbers()
        self._reports: list[StepReport] = []
        self._clock = Clock()  # checkpoints are taken when the test says so
        self._engine = TwiceEngine()

    def begin(self) -> None:
        order = self._order
        sinks = [self._sink(target) for _, target in sorted(order.targets.items(), reverse=True)]
        plan = counting_plan(self._source, *sinks, parallelism=order.parallelism)
        assert [uid for uid in ("sink", "second") if uid in order.targets] == sorted(order.targets, reverse=True)
        made = CheckpointSettings(
            storage=Storage.FILESYSTEM,
            directory=order.directory,
            job_id=order.job_id,
            restore_path=order.path,
            interval_ms=1000,
            tolerable_failures=None,
            retained=3,
            retention=Retention.RETAIN_ON_CANCELLATION,
            ignore_unclaimed_state=True,
        )
        settings = JobSettings(checkpoints=made, restart=FixedDelay(20, 0))
        settings = replace(settings, clock=self._clock, monotonic=self._clock)
        self.master = JobMaster(plan, self._engine, settings, watchers=[self._hear])
        self.master.start()
        until(lambda: self._runs() or self.master.wait(0), "the job's preparation")
        if not self._runs():
            assert self.master.error is not None
            raise self.master.error

    def _runs(self) -> bool:
        return self.master.running is not None and self.master.running.execution is not None

    def _sink(self, target: Target) -> Any:
        tag, place = self._order.tag, target.place

        def line(record: Any) -> str:
            return f"{tag}:{record[0]}:{record[1]}"

        if target.system == "files":
            policy = RollingPolicy(on_checkpoint=True) if target.rolls else RollingPolicy(1 << 40, 1 << 50, 1 << 50)
            encode = lambda record: f"{line(record)}\n".encode()  # noqa: E731
            return RowFileSink(place, encode, no_bucket, policy, target.prefix, target.suffix)
        transactions: Any
        if target.system == "kafka":
            from beadline.connectors.kafka.transactions import KafkaTransactions

            transactions = KafkaTransactions({"bootstrap.servers": target.url}, (place,), 600_000)
            row = lambda record: (place, line(record).encode(), None, target.partition, 0, None)  # noqa: E731
        elif target.system == "postgres":
            from beadline.connectors.postgres import PreparedTransactions, Server, Table

            transactions = PreparedTransactions(Server.at(target.url), Table(place, ("line",)))
            row = lambda record: (line(record),)  # noqa: E731
        else:
            transactions, row = Ledger(place), line
        for name, method in (("writing a transaction", "write"), ("committing a transaction", "commit")):
            self._points.watch(name, type(transactions), method)
        return TransactionalSink(transactions, lambda records, _: [row(each) for each in records], target.prefix)

    def _hear(self, news: Any) -> None:
        if isinstance(news, StepReport):
            self._reports.append(news)

    # -- the commands

    def step(self, end: int) -> None:
        """Read up to record ``end``."""
        self._source.ends.append(end)
        self._sealed(end)

    def _sealed(self, end: int) -> None:
        until(lambda: self._reports and self._reports[-1].total_records == end, f"record {end}")

    def fail(self, end: int) -> None:
        """The step up to record ``end`` fails once, and the job goes back."""
        attempt = self.master.attempt
        self._engine.failures["step"] = [JobExecutionError("a bad record")]
        self._source.ends.append(end)
        until(lambda: self.master.attempt > attempt, "the failure")
        self._sealed(end)

    def checkpoint(self) -> str:
        pointer = self.master.trigger(CheckpointKind.CHECKPOINT).result(PATIENCE_SECONDS)
        self._settled()
        return pointer

    def checkpoint_that_fails(self) -> None:
        """All is made ready, and then it can't be written."""
        storage: Any = self.master.home.storage
        write = storage.write
        storage.write = fails(1, OSError("no space left"), write)
        assert self.master.trigger(CheckpointKind.CHECKPOINT).exception(PATIENCE_SECONDS) is not None
        storage.write = write
        self._settled()

    def savepoint(self, directory: str, canonical: bool) -> str:
        return self._save(CheckpointKind.SAVEPOINT, directory, canonical)

    def stop(self, directory: str, canonical: bool) -> str:
        pointer = self._save(CheckpointKind.STOP_WITH_SAVEPOINT, directory, canonical)
        self._ended()
        return pointer

    def _save(self, kind: CheckpointKind, directory: str, canonical: bool) -> str:
        format = SavepointFormatType.CANONICAL if canonical else SavepointFormatType.NATIVE
        return self.master.trigger(kind, directory, format=format).result(PATIENCE_SECONDS)

    def finish(self) -> str:
        self._source.bounded = True
        return self._ended()

    def cancel(self) -> str:
        self.master.cancel()
        return self._ended()

    def _ended(self) -> str:
        assert self.master.wait(PATIENCE_SECONDS), "it did not end"
        assert self.master.end is not None
        return self.master.end.name

    def _settled(self) -> None:
        for _ in range(2):
            until(self._is_settled, "quiet")
            looks = self._clock.looks
            until(lambda: self._clock.looks > looks + 10 or self.master.wait(0), "the next round")  # noqa: B023

    def _is_settled(self) -> bool:
        assert self.master.running is not None
        checkpoints = self.master.running.checkpoints
        return not checkpoints.coordinator.pending and all(
            record.phase is Phase.COMPLETE and record.work is None for record in checkpoints._records
        )
