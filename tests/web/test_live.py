"""Records of jobs that run: what is in them is what the job has done."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.master.job import JobMaster
from beadline.testing import AwaitCheckpoint, EndStep, TestSource
from beadline.web.answers import checkpoints, exceptions, jobs, own
from beadline.web.live import record_of
from beadline.web.record import JobRecord


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._seen.inc()
        self._count.update((self._count.value() or 0) + 1)
        yield value


class FailsOnce(MapFunction):
    """Fails at 13, until a file says that it has."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def map(self, value: Any) -> Any:
        if value == 13 and not self._mark.exists():
            self._mark.touch()
            raise ValueError("thirteen, with password=hunter2")
        return value


def start(folder: Path, script: list[Any], name: str = "live", **options: str) -> tuple[Any, JobMaster]:
    settings = {
        "beadline.engine": "local",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "s3.secret-key": "hunter2",
        **options,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    stream = env.from_source(TestSource(script), WatermarkStrategy.no_watermarks(), "script").uid("script")
    fails = stream.map(FailsOnce(folder / "failed")).uid("fails").name("fails once")
    fails.key_by(lambda number: number % 3).process(Count()).uid("count").name("count").print().uid("out")
    client = env.execute_async(name)
    return client, client._control._master


def until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def by_name(record: JobRecord) -> dict[str, Any]:
    return {vertex.name: vertex for vertex in record.vertices}


def test_a_job_that_fails_and_goes_on(tmp_path: Path) -> None:
    script = [1, 2, 3, EndStep(), AwaitCheckpoint(), 4, 13, EndStep(), AwaitCheckpoint(), 5, 6]
    _, master = start(tmp_path, script)
    assert master.wait(20)
    record = record_of(master)
    text = json.dumps(record.as_dict())
    assert JobRecord.from_dict(json.loads(text)) == record
    assert "hunter2" not in text, "no secret is in a record: neither of options nor of messages"

    assert (record.state, record.restarts, record.attempt) == ("FINISHED", 1, 2)
    assert record.records == 7
    (failure,) = record.failures
    assert (failure.name, failure.operator, failure.subtask, failure.attempt) == ("ValueError", "fails once", 0, 1)
    assert failure.restarted_from == "checkpoint 1"
    message, line, *_ = failure.traceback.splitlines()
    assert "thirteen" in message
    assert "test_live.py" in line, "the user's line comes first"
    assert record.starts[1].checkpoint == 1

    vertices = by_name(record)
    assert vertices["count"].total("keys") == 3
    assert vertices["count"].counters["seen"] >= 4
    # Of the second execution, which began after the first checkpoint.
    assert vertices["fails once"].total("records_in") == vertices["fails once"].total("records_out") == 4
    assert vertices["count"].total("bytes_in") > 0
    assert vertices["count"].total("busy_ms") + vertices["count"].total("idle_ms") > 0
    assert record.workers[0].pid == record.pid

    done = [each for each in record.checkpoints if each.status == "COMPLETED"]
    held = {state.vertex: state for state in done[0].operators}
    assert sum(held[vertices["count"].id].sizes) > sum(held[vertices["fails once"].id].sizes) >= 0
    assert record.counts.completed == len(done)
    assert exceptions.history(record)["exceptionHistory"]["entries"][0]["exceptionName"] == "ValueError"
    assert jobs.details(record)["state"] == "FINISHED"
    assert own.job(record)["rerun_steps"] >= 0


def test_what_runs_is_seen_while_it_runs(tmp_path: Path) -> None:
    script = [1, 2, 3, EndStep(), AwaitCheckpoint(), 4, EndStep(), AwaitCheckpoint(), *range(20, 500)]
    client, master = start(tmp_path, script, **{"beadline.source.max-records-per-second": "20"})
    try:
        until(lambda: record_of(master, fresh=True).counts.completed)
        record = record_of(master, fresh=True)
        assert record.state == "RUNNING"
        assert record.records_per_second > 0
        assert record_of(master) is record, "who asks again soon gets the same"
        path = client.trigger_savepoint(str(tmp_path / "savepoints")).result()
        newest = next(each for each in record_of(master, fresh=True).checkpoints if each.savepoint)
        assert (newest.status, newest.format) == ("COMPLETED", "CANONICAL")
        assert newest.path is not None
        assert newest.path in path or path in newest.path
        answer = checkpoints.statistics(record_of(master))
        assert answer["latest"]["savepoint"]["checkpoint_type"] == "SAVEPOINT"
    finally:
        master.cancel()
        assert master.wait(20)


def test_a_driver_that_resumes_goes_on_with_the_history(tmp_path: Path) -> None:
    script = [1, 2, EndStep(), AwaitCheckpoint(), 13, EndStep(), AwaitCheckpoint(), *range(20, 5000)]
    slow = {"beadline.source.max-records-per-second": "50", "beadline.job-id": "history"}
    _, first = start(tmp_path, script, **slow)
    until(lambda: len(record_of(first, fresh=True).failures) == 1 and record_of(first).counts.completed >= 3)
    first.suspend()
    assert first.wait(20)
    before = record_of(first)

    _, second = start(tmp_path, script, **slow, **{"execution.state-recovery.path": "latest"})
    try:
        until(lambda: record_of(second, fresh=True).starts[-1].at >= second.started_at)
        after = record_of(second, fresh=True)
        assert second.job_id == first.job_id
        assert after.failures == before.failures
        old = {each.id: each for each in before.checkpoints if each.status == "COMPLETED"}
        kept = {each.id: each for each in after.checkpoints}
        assert old.keys() <= kept.keys()
        assert all(kept[id].operators == each.operators for id, each in old.items())
        assert after.counts.completed >= before.counts.completed
        assert kept[min(old)].discarded
        assert after.starts[-1].path == before.last_checkpoint
        assert after.job_id != after.flink_id, "a name that the user chose is no id as Flink's"
    finally:
        second.cancel()
        assert second.wait(20)


def test_a_thousand_checkpoints_are_kept_in_pages(tmp_path: Path) -> None:
    from beadline.checkpoint.coordinator.actions import CheckpointKind
    from beadline.checkpoint.coordinator.statistics import CheckpointStatistics, OperatorSizes
    from beadline.master.reporting.chronicle import Chronicle
    from tests.checkpoint.snapshots import take_over

    storage = take_over(tmp_path, "first")
    chronicle = Chronicle(storage, 200)
    statistics = CheckpointStatistics(history=200)
    sizes = (OperatorSizes("count", (5, 7), (1, 0)),)
    for id in range(1, 651):
        statistics.begin(id, CheckpointKind.CHECKPOINT, id)
        statistics.take(id, id, None, id)
        statistics.complete(id, id + 1, 8, 12, f"/chk-{id}", operators=sizes)
        stats = statistics.get(id)
        assert stats is not None
        chronicle.heard_of(stats, statistics)
        if id % 100 < 2:
            until(lambda: not chronicle._to_write and not chronicle._submitted)
    chronicle.close()
    assert len(storage.pages()) <= 4, "what is too old is gone"

    second = Chronicle(take_over(tmp_path, "second"), 200)
    assert second.counts == (650, 650, 0)
    assert [stats.id for stats in second.checkpoints][-200:] == list(range(451, 651))
    assert second.checkpoints[-1].operators == sizes
    assert [stats.discarded for stats in second.still_there([650])][-2:] == [True, False]
    # A page that makes no sense, or comes from a later version, is left out.
    storage = take_over(tmp_path, "third")
    storage.keep_page("6", b'{"checkpoints": [{"id": 600, "kind": "LATER", "status": "COMPLETED"}, {}], "more": 1}')
    assert all(stats.id < 600 for stats in Chronicle(storage, 200).checkpoints)
