"""Small programs that several tests run."""

from __future__ import annotations

from typing import Any

from beadline.common import Configuration
from beadline.datastream import StreamExecutionEnvironment


def environment(parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
    """An environment; keyword ``step_records=10`` cuts the stream into steps of ten records."""
    settings = {}
    if "step_records" in options:
        records = str(options.pop("step_records"))
        settings = {"beadline.step.first-records": records, "beadline.step.max-records": records}
    settings.update({key.replace("__", "."): str(value) for key, value in options.items()})
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    return env


def restarting(restarts: int, parallelism: int = 2, **options: Any) -> StreamExecutionEnvironment:
    """An environment whose jobs go back after 10 ms, so many times."""
    strategy = {"type": "fixed-delay", "fixed-delay__attempts": restarts, "fixed-delay__delay": "10 ms"}
    return environment(parallelism, **{f"restart-strategy__{key}": value for key, value in strategy.items()}, **options)


def collect(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)
