"""Runs scenarios in a Spark session of their own, in a process of their own, and tells each outcome in a line of
JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine.jobs import Outcome

Scenario = Callable[[Path], Outcome]


def main(master: str, scenarios: list[Scenario], options: dict[str, str] | None = None) -> None:
    """Run the scenarios that are named on the command line, or all of them."""
    logging.basicConfig(stream=sys.stderr, format="%(relativeCreated)d %(name)s %(message)s")
    started = time.monotonic()
    session = _start(master, options or {})
    _tell("session", seconds=time.monotonic() - started)
    for scenario in scenarios:
        if len(sys.argv) > 1 and scenario.__name__ not in sys.argv[1:]:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcome = scenario(Path(folder))
            accidents = sorted(path.name for path in Path(folder).glob("accident*"))
        _tell(
            scenario.__name__,
            seconds=time.monotonic() - started,
            accidents=accidents,
            results=outcome.results,
            tries=outcome.tries,
            places=[report.places for report in outcome.reports],
            workers=[report.workers for report in outcome.reports],
        )
    session.stop()


def _start(master: str, options: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master)
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.shuffle.reduceLocality.enabled": "false",
        **options,
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _tell(name: str, **facts: Any) -> None:
    print(json.dumps({"name": name, **facts}), flush=True)


def outcomes_of(script: Path, timeout: float) -> dict[str, dict[str, Any]]:
    """Run a script of scenarios and give what it told of each."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=root,
        # Executors of a local cluster work in folders of their own.
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {facts["name"]: facts for facts in told}
