"""How long a step over 100 records takes that go through one shuffle, after warm-up. The last line is JSON."""

from __future__ import annotations

import json
import statistics

from beadline.common import Configuration
from beadline.datastream import StreamExecutionEnvironment

STEPS, WARM_UP, RECORDS = 240, 140, 100


def main() -> None:
    settings = {"beadline.step.first-records": str(RECORDS), "beadline.step.max-records": str(RECORDS)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(2)
    seconds: list[float] = []
    env.add_step_listener(lambda report: seconds.append(report.seconds))
    numbers = env.from_sequence(1, STEPS * RECORDS)
    numbers.key_by(lambda n: n % 50).reduce(lambda a, b: a + b).filter(lambda n: n < 0).print()
    env.execute("small steps")
    warm = sorted(seconds[WARM_UP:])
    report = {
        "steps": len(warm),
        "median_seconds": round(statistics.median(warm), 4),
        "fastest": round(warm[0], 4),
        "p90": round(warm[int(len(warm) * 0.9)], 4),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
