"""The alarm that complex event processing is explained with: two readings within a minute, over 20 degrees apart."""

from __future__ import annotations

import random
from typing import Any

import pytest

from beadline.cep import CEP, ConditionContext, Pattern
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.datastream import OutputTag
from tests.datastream.jobs import collect, environment
from tests.timestamps import At

pytestmark = pytest.mark.spark

QUIET = OutputTag("quiet", Types.LONG())
MINUTE = 60_000


def far_apart(reading: Any, ctx: ConditionContext) -> bool:
    (first,) = ctx.get_events_for_pattern("first")
    return bool(abs(reading[2] - first[2]) > 20)


def readings() -> list[tuple[str, int, float]]:
    """Three sensors, a reading every two to seven seconds, up to 20 s out of order."""
    chance = random.Random(7)
    made = []
    for sensor in ("boiler", "cellar", "attic"):
        at = 0
        for _ in range(150):
            at += chance.randrange(2000, 7000)
            made.append((sensor, at, round(chance.gauss(50, 6), 1)))
    return sorted(made, key=lambda reading: reading[1] + chance.randrange(20_000))


def test_two_readings_within_a_minute_that_are_far_apart(spark: Any) -> None:
    given = readings()
    env = environment(3, step_records=90)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_timestamp_assigner(At())
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    stream = env.from_collection(given, kind).assign_timestamps_and_watermarks(strategy).key_by(lambda r: r[0])
    pattern = Pattern.begin("first").followed_by("second").where(far_apart).within(Time.minutes(1))
    alarms = collect(CEP.pattern(stream, pattern).select(lambda match: (*match["first"], *match["second"])))

    expected = []
    for first in given:
        behind = sorted(r for r in given if r[0] == first[0] and first[1] < r[1] < first[1] + MINUTE)
        expected += [(first, other) for other in behind if abs(other[2] - first[2]) > 20][:1]
    assert len(expected) > 20
    assert sorted(alarms) == sorted(expected)
