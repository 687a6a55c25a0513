"""Warns of two readings within a minute that are more than 20 degrees apart, in whatever order they arrive.

beadline run examples/temperature_pattern.py
"""

from __future__ import annotations

from dataclasses import dataclass

from beadline.cep import CEP, ConditionContext, Pattern
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import StreamExecutionEnvironment

DEGREES = 20.0


@dataclass(frozen=True)
class Reading:
    sensor: str
    second: int
    temperature: float


READINGS = [
    Reading("boiler", 0, 61.0),
    Reading("cellar", 5, 12.5),
    Reading("boiler", 40, 74.0),
    Reading("boiler", 30, 85.5),  # comes late, and is 24.5 above the first
    Reading("cellar", 50, 11.9),
    Reading("boiler", 80, 60.2),  # 25.3 below the one at 30
    Reading("cellar", 70, 35.0),  # 22.5 above the one at 5, but 65 s later; 23.1 above the one at 50
    Reading("attic", 75, 30.0),
    Reading("attic", 140, 52.0),  # 22.0 above, 65 s later
]


class Clock(TimestampAssigner):
    def extract_timestamp(self, value: Reading, record_timestamp: int) -> int:
        return value.second * 1000


def far_apart(reading: Reading, ctx: ConditionContext) -> bool:
    (first,) = ctx.get_events_for_pattern("first")
    return abs(reading.temperature - first.temperature) > DEGREES


def alert(match: dict[str, list[Reading]]) -> tuple[str, int, int, float]:
    (first,), (second,) = match["first"], match["second"]
    return first.sensor, first.second, second.second, round(second.temperature - first.temperature, 1)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    readings = env.from_collection(READINGS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_timestamp_assigner(Clock())
    )
    jump = Pattern.begin("first").followed_by("second").where(far_apart).within(Time.minutes(1))
    (
        CEP.pattern(readings.key_by(lambda reading: reading.sensor, key_type=Types.STRING()), jump)
        .select(alert, output_type=Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.DOUBLE()]))
        .print("jump")
    )
    env.execute("temperature pattern")
