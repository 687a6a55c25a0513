"""Whole jobs in the test's own process: checkpoints, crashes, restores and savepoints without Java."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.common.restart_strategy import RestartStrategies
from beadline.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import JobExecutionError
from beadline.master.engines.local import LocalEngine
from beadline.testing import AwaitCheckpoint, Crash, EndStep, KeyedHarness, TestSource, VerifyingSink

RECORDS = 300
KEYS = 7


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The local one is all that a test of a program has to set, whatever that program is."""
    name = getattr(request, "param", "local")
    if name == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setenv("BEADLINE_ENGINE", name)
    return name


both_engines = pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)


class Totals(KeyedProcessFunction):
    """A running count and sum per key: lost, repeated or reordered records all show."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count, total = self.totals.value() or (0, 0)
        self.totals.update((count + 1, total + value))
        yield ctx.get_current_key(), count + 1, total + value


def expected() -> list[tuple[int, int, int]]:
    """Key k gets k, k + 7, k + 14, …"""
    made = []
    for key in range(KEYS):
        for count in range(1, len(range(key, RECORDS, KEYS)) + 1):
            made.append((key, count, count * key + KEYS * count * (count - 1) // 2))
    return made


def with_events(events: dict[int, list[Any]]) -> list[Any]:
    """The numbers, with something before some of them."""
    return [element for number in range(RECORDS) for element in [*events.get(number, []), number]]


def job(source: TestSource, sink: VerifyingSink, parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    settings = {"execution.checkpointing.interval": "20 ms", **options}
    env = StreamExecutionEnvironment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, 1))
    numbers: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda number: number % KEYS).process(Totals()).uid("totals").sink_to(sink).uid("sink")
    return env


def options(**more: Any) -> dict[str, str]:
    return {f"execution.{key.replace('__', '.').replace('_', '-')}": str(value) for key, value in more.items()}


@both_engines
def test_every_record_counts_once_whatever_crashes() -> None:
    """A crash before any checkpoint, after one, two at one place, a killed worker, and one at the very end."""
    events: dict[int, list[Any]] = {
        5: [Crash()],
        60: [AwaitCheckpoint()],
        90: [Crash()],
        120: [EndStep()],
        140: [Crash(kill=True)],
        150: [AwaitCheckpoint(), Crash(times=2)],
        200: [EndStep()],
    }
    source, sink = TestSource([*with_events(events), EndStep(), Crash()], step=40), VerifyingSink()
    client = job(source, sink).execute_async("crashes")
    client.get_job_execution_result().result()
    assert source.crashes == 6
    sink.assert_exactly(expected())
    sink.assert_in_order(key=lambda r: r[0], by=lambda r: r[1])
    restarts = [each["restarted_from"] for each in client.get_exceptions()]
    assert restarts[0] == "the beginning"
    assert len(restarts) == 5, "a lost worker is no failure of the job"
    assert all(start.startswith("checkpoint ") for start in restarts[1:])
    with KeyedHarness(Totals(), lambda number: number % KEYS, parallelism=2) as harness:
        harness.push_all(range(RECORDS))
        assert sorted(harness.outputs()) == sorted(sink.read())


@both_engines
def test_a_crash_too_many_ends_the_job() -> None:
    """What was committed before stays; nothing of the step that crashed is visible."""
    source = TestSource([*range(14), AwaitCheckpoint(), *range(14, 20), Crash(times=6)])
    sink = VerifyingSink()
    with pytest.raises(JobExecutionError, match="TestCrash: crash 6 of 6 at element 21"):
        job(source, sink).execute("too many")
    sink.assert_exactly([total for total in expected() if total[1] <= 2])


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_stops_with_a_savepoint_and_goes_on_from_it(tmp_path: Path, drain: bool) -> None:
    sink = VerifyingSink()
    first = job(TestSource(range(100), bounded=False, step=30), sink, 2).execute_async("stopped")
    sink.wait_for(100)
    savepoint = first.stop_with_savepoint(drain, str(tmp_path)).result()
    assert Path(savepoint).parent == tmp_path
    source = TestSource([*range(200), Crash(), *range(200, RECORDS)])
    job(source, sink, 3, **options(state_recovery__path=savepoint)).execute("goes on")
    assert source.crashes == 1
    sink.assert_exactly(expected())


def test_a_cancelled_job_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    kept = options(
        checkpointing__dir=tmp_path / "checkpoints",
        checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
    )
    sink = VerifyingSink()
    first = job(TestSource(range(100), bounded=False), sink, **kept).execute_async("twice")
    sink.wait_for(100)
    first.cancel().result()
    job(TestSource(range(RECORDS)), sink, **kept, **options(state_recovery__path="latest")).execute("twice")
    sink.assert_exactly(expected())


def test_jobs_run_side_by_side() -> None:
    sinks = [VerifyingSink() for _ in range(3)]
    jobs = [
        job(TestSource([*range(150), Crash(), *range(150, RECORDS)], step=20), sink).execute_async() for sink in sinks
    ]
    for each in jobs:
        each.get_job_execution_result().result()
    for sink in sinks:
        sink.assert_exactly(expected())


class Noisy(MapFunction):
    def map(self, value: Any) -> Any:
        print(f"saw {value}")
        return value


def test_what_functions_print_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Of steps that count only."""
    env = StreamExecutionEnvironment(Configuration.from_dict({"restart-strategy.type": "fixed-delay"}))
    env.configure(Configuration.from_dict({"restart-strategy.fixed-delay.delay": "1 ms"}))
    env.enable_checkpointing(20)
    source = TestSource([1, AwaitCheckpoint(), 2, Crash(kill=True), 3])
    numbers: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    numbers.map(Noisy()).sink_to(VerifyingSink())
    env.execute()
    assert capsys.readouterr().out.splitlines() == ["saw 1", "saw 2", "saw 3"]


RUNNING: list[int] = []
TOGETHER: set[int] = set()


def busy(number: int) -> int:
    RUNNING.append(number)
    time.sleep(0.002)
    TOGETHER.add(len(RUNNING))
    RUNNING.pop()
    return number


def test_the_local_engine_does_one_thing_at_a_time() -> None:
    """Whichever jobs want something: what a task may unpickle, and where its lines go, belongs to the process."""
    results: list[list[int]] = [[], [], []]

    def work(mine: list[int]) -> None:
        mine += LocalEngine().run_each(busy, list(range(10)))

    threads = [threading.Thread(target=work, args=(each,)) for each in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [list(range(10))] * 3
    assert {1} == TOGETHER
