"""Sinks that a program writes itself, in whole jobs on the local engine."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration
from beadline.common.typeinfo import Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.base import CommitRequest, Committer, Sink, SinkWriter, WriterContext
from beadline.datastream.functions import (
    CheckpointCommitter,
    GenericWriteAheadSink,
    MapFunction,
    RuntimeContext,
    SinkContext,
    SinkFunction,
    TransactionAborted,
    TwoPhaseCommitSinkFunction,
)
from beadline.errors import JobExecutionError

pytestmark = pytest.mark.usefixtures("local_engine")

NUMBERS = list(range(200))


class FailsOnce(MapFunction):
    """Breaks the job down once, in the middle."""

    def __init__(self, folder: Path, at: int = 120) -> None:
        self._marker = str(folder / "failed")
        self._at = at

    def map(self, value: int) -> int:
        if value == self._at and not os.path.exists(self._marker):
            Path(self._marker).touch()
            raise ValueError("the first time")
        return value


def environment(tmp_path: Path, interval: int | None = 10, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    configuration.set_string("beadline.step.first-records", "10")
    configuration.set_string("beadline.step.max-records", "10")
    if interval is not None:
        configuration.set_string("restart-strategy.type", "fixed-delay")
        configuration.set_string("restart-strategy.fixed-delay.attempts", "5")
        configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
        configuration.set_string("execution.checkpointing.interval", f"{interval} ms")
        configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


class Lines(SinkFunction):
    """A line for each record, in a file for each subtask."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = str(folder)
        self._lines: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self._path = Path(self._folder, f"lines-{runtime_context.get_index_of_this_subtask()}")

    def invoke(self, value: Any, context: SinkContext) -> None:
        self._lines.append(f"{value} {context.timestamp()}\n")

    def finish(self) -> None:
        with open(self._path, "a") as stream:
            stream.writelines(self._lines)


@pytest.mark.parametrize("interval", [None, 10], ids=["without checkpoints", "with checkpoints"])
def test_a_sink_function_gets_every_record(interval: int | None, tmp_path: Path) -> None:
    env = environment(tmp_path, interval)
    stream = env.from_collection(NUMBERS, Types.INT())
    if interval is not None:
        stream = stream.map(FailsOnce(tmp_path), Types.INT())
    stream.add_sink(Lines(tmp_path))
    env.execute()
    lines = [line for path in tmp_path.glob("lines-*") for line in path.read_text().splitlines()]
    counts = Counter(int(line.split()[0]) for line in lines)
    assert set(counts) == set(NUMBERS)
    assert interval is not None or set(counts.values()) == {1}
    assert {line.split()[1] for line in lines} == {"None"}


class Refusing(SinkFunction):
    def invoke(self, value: Any, context: SinkContext) -> None:
        raise ValueError(f"no room for {value}")


def test_a_sink_function_that_fails_fails_the_job(tmp_path: Path) -> None:
    env = environment(tmp_path, None)
    env.from_collection(NUMBERS, Types.INT()).add_sink(Refusing())
    with pytest.raises(Exception, match="no room for 0"):
        env.execute()


class Accounts(CheckpointCommitter):
    """What was sent, in the database that it was sent to."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def create_resource(self) -> None:
        with sqlite3.connect(self._path) as database:
            database.execute("create table if not exists sent (job text, subtask int, id int)")

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        with sqlite3.connect(self._path) as database:
            database.execute("insert into sent values (?, ?, ?)", (self._job_id, subtask_idx, checkpoint_id))

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        with sqlite3.connect(self._path) as database:
            found = database.execute(
                "select 1 from sent where job = ? and subtask = ? and id >= ?",
                (self._job_id, subtask_idx, checkpoint_id),
            )
            return found.fetchone() is not None


class Rows(GenericWriteAheadSink):
    def __init__(self, path: Path) -> None:
        super().__init__(Accounts(path))
        self._path = str(path)

    def send_values(self, values: list[Any], checkpoint_id: int, timestamp: int) -> bool:
        with sqlite3.connect(self._path) as database:
            database.execute("create table if not exists numbers (n int)")
            database.executemany("insert into numbers values (?)", [(value,) for value in values])
        return True


def test_a_write_ahead_sink_sends_each_checkpoint_once(tmp_path: Path) -> None:
    env = environment(tmp_path)
    numbers = env.from_collection(NUMBERS, Types.INT()).map(FailsOnce(tmp_path), Types.INT())
    numbers.add_sink(Rows(tmp_path / "rows.db"))
    env.execute()
    with sqlite3.connect(tmp_path / "rows.db") as database:
        assert [n for (n,) in database.execute("select n from numbers order by n")] == NUMBERS


class Files(TwoPhaseCommitSinkFunction):
    """A transaction is a hidden file; committing it renames it."""

    def __init__(self, folder: Path, aborts: int = 0) -> None:
        self._folder = str(folder)
        self._aborts = aborts

    def begin_transaction(self) -> str:
        path = Path(self._folder, f".{self.transaction_id}")
        path.touch()
        return str(path)

    def invoke(self, transaction: str, value: Any, context: SinkContext) -> None:
        with open(transaction, "a") as stream:
            stream.write(f"{value}\n")

    def pre_commit(self, transaction: str) -> None:
        assert os.path.getsize(transaction)

    def commit(self, transaction: str) -> None:
        aborted = len(list(Path(self._folder).glob("aborted-*")))
        if aborted < self._aborts and os.path.exists(transaction):
            os.rename(transaction, Path(self._folder, f"aborted-{aborted}"))
        target = Path(transaction).with_name("out" + Path(transaction).name)
        if not target.exists():
            if not os.path.exists(transaction):
                raise TransactionAborted(transaction)
            os.rename(transaction, target)

    def abort(self, transaction: str) -> None:
        Path(transaction).unlink(missing_ok=True)

    def list_open(self, prefix: str) -> list[tuple[str, str]]:
        return [(path.name[1:], str(path)) for path in Path(self._folder).glob(f".{prefix}*")]


@pytest.mark.parametrize("aborts", [0, 3])
def test_a_two_phase_commit_sink_writes_every_record_once(aborts: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".beadline-other").touch()
    env = environment(tmp_path)
    numbers = env.from_collection(NUMBERS, Types.INT()).map(FailsOnce(tmp_path), Types.INT())
    numbers.add_sink(Files(out, aborts))
    env.execute()
    assert sorted(int(n) for path in out.glob("out.*") for n in path.read_text().split()) == NUMBERS
    assert len(list(out.glob("aborted-*"))) == aborts
    assert [path.name for path in out.glob(".*")] == [".beadline-other"], "what it left open is ended, and no more"


class FailsSlowly(Files):
    """Fails to commit once, when later transactions wait for their turn."""

    def commit(self, transaction: str) -> None:
        marker = Path(self._folder, "failed-slowly")
        if not marker.exists():
            marker.touch()
            wait_for_transactions(Path(self._folder))
            raise OSError("the system is away for a moment")
        super().commit(transaction)


def wait_for_transactions(folder: Path) -> None:
    """Several checkpoints have been written meanwhile, and want to publish."""
    deadline = time.monotonic() + 30
    while len(list(folder.glob(".*"))) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)


def test_nothing_overtakes_a_commit_that_failed(tmp_path: Path) -> None:
    """What comes after it would pass for the newest that is visible, and this one for visible too."""
    out = tmp_path / "out"
    out.mkdir()
    env = environment(tmp_path, execution__checkpointing__max_concurrent_checkpoints="4")
    env.from_collection(NUMBERS, Types.INT()).add_sink(FailsSlowly(out))
    env.execute()
    assert sorted(int(n) for path in out.glob("out.*") for n in path.read_text().split()) == NUMBERS


def test_a_transaction_that_is_too_old_may_be_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beadline.connectors.user_sinks.functions import FunctionTransactions

    def broken(self: Files, transaction: str) -> None:
        raise OSError("it has timed out")

    monkeypatch.setattr(Files, "commit", broken)
    sink = Files(tmp_path).set_transaction_timeout(5).ignore_failures_after_transaction_timeout()
    transactions = FunctionTransactions(sink.enable_transaction_timeout_warnings(0.5))
    handle = transactions.write("beadline-0-1-0-1-ab", iter([[(1, None)]]))
    handle["began"] -= 1000
    with caplog.at_level(logging.WARNING, "beadline"):
        transactions.recover(handle)
    assert "its timeout is 5 ms" in caplog.text
    assert "given up" in caplog.text
    sink.set_transaction_timeout(10**6)
    with pytest.raises(OSError, match="timed out"):
        FunctionTransactions(sink).recover(handle)


class Documents(Sink):
    """A writer that prepares files, and a committer that hesitates."""

    def __init__(self, folder: Path, verdict: str = "") -> None:
        self._folder = str(folder)
        self._verdict = verdict

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(Path(self._folder, f".{context.transaction_id}"))

    def create_committer(self) -> Committer:
        return _Renamer(self._verdict)

    def list_open(self, prefix: str) -> list[tuple[str, Any]]:
        return [(path.name[1:], str(path)) for path in Path(self._folder).glob(f".{prefix}*")]

    def abort(self, committable: str) -> None:
        Path(committable).unlink(missing_ok=True)


class _Writer(SinkWriter):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: list[Any] = []

    def write(self, element: Any, context: SinkContext) -> None:
        self._values.append(element)

    def flush(self, end_of_input: bool) -> None:
        self._path.write_text(json.dumps(self._values))

    def prepare_commit(self) -> list[str]:
        return [str(self._path)]


class _Renamer(Committer):
    def __init__(self, verdict: str) -> None:
        self._verdict = verdict

    def commit(self, committables: Collection[CommitRequest]) -> None:
        for request in committables:
            path = Path(request.get_committable())
            if self._verdict == "later" and request.get_number_of_retries() < 2:
                request.retry_later()
            elif self._verdict == "failed":
                request.signal_failed_with_unknown_reason(ValueError("nobody knows why"))
            elif self._verdict == "given up":
                request.signal_failed_with_known_reason(ValueError("it is known"))
            elif not path.exists():
                request.signal_already_committed()
            else:
                path.rename(path.with_name(f"doc{path.name}"))


def documents(folder: Path) -> list[int]:
    return sorted(n for path in folder.glob("doc.*") for n in json.loads(path.read_text()))


@pytest.mark.parametrize("verdict", ["", "later"])
def test_a_writer_and_a_committer_write_every_record_once(verdict: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    env = environment(tmp_path)
    numbers = env.from_collection(NUMBERS, Types.INT()).map(FailsOnce(tmp_path), Types.INT())
    numbers.sink_to(Documents(out, verdict))
    env.execute()
    assert documents(out) == NUMBERS
    assert not list(out.glob(".*"))


def test_what_a_committer_gives_up_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    env = environment(tmp_path)
    env.from_collection(NUMBERS, Types.INT()).sink_to(Documents(tmp_path, "given up"))
    with caplog.at_level(logging.ERROR, "beadline"):
        env.execute()
    assert "given up by its committer: it is known" in caplog.text
    assert documents(tmp_path) == []


def test_a_committer_that_fails_fails_the_job(tmp_path: Path) -> None:
    env = environment(tmp_path, None)
    env.from_collection(NUMBERS, Types.INT()).sink_to(Documents(tmp_path, "failed"))
    with pytest.raises(JobExecutionError, match="nobody knows why"):
        env.execute()


class Plain(Documents):
    """Without a committer, the writer makes things visible."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(Path(self._folder, f"doc.{context.transaction_id}-{context.get_subtask_id()}"))

    def create_committer(self) -> None:  # type: ignore[override]
        return None


def test_a_writer_alone_writes_at_least_once(tmp_path: Path) -> None:
    env = environment(tmp_path, None)
    env.from_collection(NUMBERS, Types.INT()).sink_to(Plain(tmp_path))
    env.execute()
    assert documents(tmp_path) == NUMBERS


class Noting(MapFunction):
    """A byte for each record."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "noted")

    def map(self, value: int) -> int:
        with open(self._path, "a") as stream:
            stream.write(".")
        return value


class Slow(Files):
    def pre_commit(self, transaction: str) -> None:
        raise OSError("the system is away")


def test_output_that_waits_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When checkpoints fail, the job waits, and does not fill the disk."""
    out = tmp_path / "out"
    out.mkdir()
    env = environment(
        tmp_path,
        beadline__sink__max_staged_size="300 b",
        execution__checkpointing__tolerable_failed_checkpoints="20",
        restart_strategy__type="none",
    )
    env.set_parallelism(1)
    env.from_collection(list(range(5000)), Types.INT()).map(Noting(tmp_path), Types.INT()).add_sink(Slow(out))
    with caplog.at_level(logging.WARNING, "beadline"), pytest.raises(JobExecutionError, match="the system is away"):
        env.execute()
    assert "beadline.sink.max-staged-size" in caplog.text
    assert 10 <= (tmp_path / "noted").stat().st_size < 1000, "it stopped reading long before the end"
