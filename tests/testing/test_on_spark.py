"""Crashes as data, in a job on Spark with checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.common import Types, WatermarkStrategy
from beadline.common.restart_strategy import RestartStrategies
from beadline.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import JobExecutionError
from beadline.testing import AwaitCheckpoint, Crash, EndStep, KeyedHarness, TestSource, VerifyingSink
from tests.datastream.jobs import environment

pytestmark = pytest.mark.spark

RECORDS = 300
KEYS = 7


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


def job(source: TestSource, sink: VerifyingSink, checkpoints: bool, restarts: int) -> Any:
    env = environment(2)
    if checkpoints:
        env.enable_checkpointing(150)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(restarts, 10))
    numbers: DataStream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % KEYS).process(Totals()).sink_to(sink)
    return env


def test_every_record_counts_once_whatever_crashes(spark: Any) -> None:
    """A crash before any checkpoint, behind one, two at one place, a killed worker, and one at the very end."""
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
    job(source, sink, checkpoints=True, restarts=5).execute("crashes")
    assert source.crashes == 6
    sink.assert_exactly(expected())
    sink.assert_in_order(key=lambda r: r[0], by=lambda r: r[1])
    with KeyedHarness(Totals(), lambda number: number % KEYS, parallelism=2) as harness:
        harness.push_all(range(RECORDS))
        assert sorted(harness.outputs()) == sorted(sink.read())


def test_a_crash_too_many_ends_the_job(spark: Any) -> None:
    """What was committed before stays; nothing of the step that crashed is visible."""
    source = TestSource([*range(14), AwaitCheckpoint(), *range(14, 20), Crash(times=3)])
    sink = VerifyingSink()
    with pytest.raises(JobExecutionError, match="TestCrash: crash 3 of 3 at element 21"):
        job(source, sink, checkpoints=True, restarts=2).execute("too many")
    sink.assert_exactly([total for total in expected() if total[1] <= 2])
