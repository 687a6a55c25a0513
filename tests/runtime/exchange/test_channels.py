"""Nothing that comes through a channel is taken on trust."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beadline.api.function import MapFunction
from beadline.errors import ChannelError, JobExecutionError
from beadline.master.stepping import check_acks
from beadline.runtime.exchange import writer
from beadline.runtime.exchange.gate import ChannelCheck
from beadline.runtime.exchange.rows import BARRIER, BROADCAST_SEQ, DATA, DESCRIPTOR, WireRow
from beadline.runtime.task.task import Task
from tests.graph.programs import Program, by, same
from tests.runtime.harness import Given, Job

RECORDS = {1: [list(range(40)), list(range(40, 60))]}
Edit = Callable[[list[WireRow]], list[WireRow]]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Two sources, two keyed subtasks; several chunks in every channel."""
    monkeypatch.setattr(writer, "_CHUNK_RECORDS", 3)
    program = Program()
    program.collect(program.function("map", same, (program.source(Given()), by(same))))
    return Job(program, tmp_path)


def chunks(rows: list[WireRow]) -> list[WireRow]:
    return [row for row in rows if row.kind == DATA and row.target == 1]


def edited(edit: Edit) -> Any:
    """Change the rows of one task only."""
    return lambda level, partition, rows: edit(list(rows)) if (level, partition) == (1, 1) else rows


def refuse(job: Job, edit: Edit, message: str) -> None:
    before = dict(job.handles)
    with pytest.raises(JobExecutionError, match=message):
        job.step(RECORDS, meddle=edited(edit))
    assert job.handles == before
    assert job.out == {}


def without(rows: list[WireRow], row: WireRow) -> list[WireRow]:
    return [other for other in rows if other is not row]


def test_untouched_rows_pass(job: Job) -> None:
    job.step(RECORDS, meddle=edited(lambda rows: rows))
    assert sorted(job.out["out"]) == list(range(60))


@pytest.mark.parametrize("position", [0, 1, -1])
def test_a_dropped_chunk(job: Job, position: int) -> None:
    refuse(job, lambda rows: without(rows, chunks(rows)[position]), r"expected chunk \d+, got|the barrier says")


@pytest.mark.parametrize("position", [0, 1, -1])
def test_a_doubled_chunk(job: Job, position: int) -> None:
    def double(rows: list[WireRow]) -> list[WireRow]:
        row = chunks(rows)[position]
        rows.insert(rows.index(row), row)
        return rows

    refuse(job, double, r"expected chunk \d+, got")


def test_a_row_of_an_unknown_channel(job: Job) -> None:
    def stray(rows: list[WireRow]) -> list[WireRow]:
        return [*rows, chunks(rows)[0]._replace(channel=99)]

    refuse(job, stray, "level 1, partition 1 got a row of unknown channel 99")


def test_a_row_for_another_subtask(job: Job) -> None:
    """A wrong destination is wrapped silently by the exchange, so the task looks at it."""

    def wrap(rows: list[WireRow]) -> list[WireRow]:
        row = chunks(rows)[0]
        return [row._replace(dest=3) if other is row else other for other in rows]

    refuse(job, wrap, "level 1, partition 1 got a row for 3")


def test_two_attempts_of_one_sender(job: Job, tmp_path: Path) -> None:
    """Barriers of one upstream task must name one digest."""
    program = Program()
    source = program.source(Given())
    program.collect((source, by(same)), (program.map(source), by(same)))
    double = Job(program, tmp_path)

    def mix(rows: list[WireRow]) -> list[WireRow]:
        at = next(i for i, row in enumerate(rows) if row.kind == BARRIER)
        count, digest, level, partition, _, failed = pickle.loads(rows[at].payload)
        rows[at] = rows[at]._replace(payload=pickle.dumps((count, digest, level, partition, "other", failed)))
        return rows

    with pytest.raises(JobExecutionError, match="two attempts of level 0, partition"):
        double.step(RECORDS, meddle=edited(mix))


def test_consumers_that_read_different_attempts_are_not_sealed(job: Job) -> None:
    """One consumer reads what a sender sent at first, the other what it sent when it ran again."""
    first: dict[int, list[WireRow]] = {}

    def remember(level: int, partition: int, rows: list[WireRow]) -> list[WireRow]:
        if level == 1:
            first[partition] = list(rows)
        return rows

    job.attempt({1: [[1, 2, 3], [4]]}, meddle=remember)
    old = [row for row in first[1] if row.target == 1 and row.kind != DESCRIPTOR]

    def mix(level: int, partition: int, rows: list[WireRow]) -> list[WireRow]:
        if (level, partition) != (1, 1):
            return rows
        return [row for row in rows if row.target != 1 or row.kind == DESCRIPTOR] + old

    acks = job.attempt({1: [[1, 2, 3, 5], [4]]}, meddle=mix)
    with pytest.raises(ChannelError, match="read another attempt of level 0"):
        check_acks(job.plan, acks, job.handles)


def test_broadcast_rows_start_at_their_own_number() -> None:
    check = ChannelCheck("c", broadcast=True)
    payload = pickle.dumps([([1], None, None)])
    assert check.chunk(WireRow(0, 1, 0, BROADCAST_SEQ, DATA, payload)) == [([1], None, None)]
    with pytest.raises(ChannelError, match="expected chunk"):
        check.chunk(WireRow(0, 1, 0, 1, DATA, payload))


# -- user code that fails


class Picky(MapFunction):
    def map(self, value: Any) -> Any:
        if value == 13:
            raise ValueError("unlucky")
        return value


def test_a_users_exception_is_data_and_the_worker_goes_on(tmp_path: Path) -> None:
    program = Program()
    mapped = program.function("map", Picky(), (program.source(Given()), by(same)), name="picky")
    program.collect((program.function("map", same, (mapped, by(same))), by(same)))
    job = Job(program, tmp_path)
    job.step({1: [[1, 2, 3], [4]]})
    before = dict(job.handles)
    acks = job.attempt({1: [[12, 13, 14], [15]]})
    assert len(acks) == 8, "every task acknowledges"
    with pytest.raises(
        JobExecutionError, match=r"operator 'picky'.*failed at record 13: ValueError: unlucky"
    ) as raised:
        check_acks(job.plan, acks, before)
    assert "in map" in (raised.value.user_traceback or "")
    job.step({1: [[12, 14], [15]]})
    assert sorted(job.out["out"]) == [1, 2, 3, 4, 12, 14, 15]


def test_what_cannot_be_pickled_names_its_record(tmp_path: Path) -> None:
    program = Program()
    mapped = program.map(program.source(Given()), function=lambda n: n if n < 3 else (n for _ in "a"))
    program.collect((mapped, by(lambda _: 1)))
    acks = Job(program, tmp_path).attempt({1: [[1, 2, 3], []]})
    failure = next(ack.failure for ack in acks if ack.failure is not None)
    assert failure.operator == "map"
    assert "generator" in (failure.record or "")
    assert "a value of type generator can't be pickled" in failure.message


def test_a_key_without_an_encoding_is_the_users_failure(tmp_path: Path) -> None:
    program = Program()
    program.collect((program.source(Given()), by(lambda n: len)))
    acks = Job(program, tmp_path).attempt({1: [[1], []]})
    failure = next(ack.failure for ack in acks if ack.failure is not None)
    assert (failure.operator, failure.record, failure.error_type) == ("key_by before out", "1", "KeyEncodingError")


def test_a_lost_segment_file_is_no_users_failure(tmp_path: Path) -> None:
    """Spark may try again, and so may the master."""
    program = Program()
    program.collect(program.function("reduce", max, (program.source(Given()), by(same))))
    job = Job(program, tmp_path, inline_limit=0)
    job.step({1: [[1, 2], [3]]})
    for path in Path(job.context.state_root).iterdir():
        path.unlink()
    job.workers[0] = job.new_worker()
    with pytest.raises(JobExecutionError, match=r"failed 6 times; .*can't read"):
        job.step({1: [[1], []]})


def test_a_task_that_is_dropped_in_the_middle_leaves_no_functions(tmp_path: Path) -> None:
    program = Program()
    program.collect(program.map(program.source(Given())))
    job = Job(program, tmp_path, parallelism=1)
    job.step({1: [[1]]})
    worker = job.workers[0]
    kept = worker.operators[0, 0]
    header, inputs = job.next({1: [[1]]})
    own = pickle.loads(inputs[0][2])
    task = Task(worker, header, 0, 0)
    chunks = task.work(iter(()), own)
    task._begin(own)
    chunks.close()
    assert (0, 0) not in worker.operators
    job.step({1: [[2]]})
    assert worker.operators[0, 0] is not kept
    assert job.out["out"] == [1, 2]
