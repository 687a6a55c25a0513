"""Warns when the temperature of a sensor jumps by more than 1.7 degrees from one reading to the next.

beadline run examples/sensor_alerts.py
"""

from __future__ import annotations

from dataclasses import dataclass

from beadline.common import Types
from beadline.datastream import StreamExecutionEnvironment

THRESHOLD = 1.7


@dataclass(frozen=True)
class Reading:
    sensor: str
    temperature: float


READINGS = [
    Reading("boiler", 61.0),
    Reading("cellar", 12.5),
    Reading("boiler", 62.1),
    Reading("cellar", 12.6),
    Reading("boiler", 66.4),  # 4.3 up
    Reading("attic", 30.0),
    Reading("cellar", 10.8),  # 1.8 down
    Reading("boiler", 65.9),
    Reading("attic", 31.6),
]


def alert(reading: Reading, last: float | None) -> tuple[list[tuple[str, float, float]], float]:
    """What to emit, and the state to keep: the last temperature, which is None before a sensor's first reading."""
    jump = 0.0 if last is None else round(abs(reading.temperature - last), 2)
    alerts = [(reading.sensor, reading.temperature, jump)] if jump > THRESHOLD else []
    return alerts, reading.temperature


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.from_collection(READINGS)
        .key_by(lambda reading: reading.sensor, key_type=Types.STRING())
        .flat_map_with_state(
            alert,
            output_type=Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.DOUBLE()]),
            state_type=Types.DOUBLE(),
        )
        .print("jump")
    )
    env.execute("sensor alerts")
