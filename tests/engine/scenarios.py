"""Runs scenarios in a Spark session of their own, in a process of their own, and tells each outcome in a line of
JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.engine.jobs import Outcome
from tests.sessions import start_session

Scenario = Callable[[Path], Outcome]


def main(master: str, scenarios: list[Scenario], options: dict[str, str] | None = None) -> None:
    """Run the scenarios that are named on the command line, or all of them."""
    logging.basicConfig(stream=sys.stderr, format="%(relativeCreated)d %(name)s %(message)s")
    run_again = _RunAgain()
    logging.getLogger("beadline").addHandler(run_again)
    started = time.monotonic()
    session = start_session(master, options)
    _tell("session", seconds=time.monotonic() - started)
    for scenario in scenarios:
        if len(sys.argv) > 1 and scenario.__name__ not in sys.argv[1:]:
            continue
        started = time.monotonic()
        run_again.reasons.clear()
        with tempfile.TemporaryDirectory() as folder:
            outcome = scenario(Path(folder))
            accidents = sorted(path.name for path in Path(folder).glob("accident*"))
        _tell(
            scenario.__name__,
            seconds=time.monotonic() - started,
            accidents=accidents,
            results=outcome.results,
            tries=outcome.tries,
            run_again=run_again.reasons,
            took=[round(report.seconds, 2) for report in outcome.reports],
            places=[report.places for report in outcome.reports],
            workers=[report.workers for report in outcome.reports],
        )
    session.stop()


class _RunAgain(logging.Handler):
    """Gathers why steps were run again: pairs of step and reason."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = re.match(r"step (\d+) is run again \(.*?\): (.*)", record.getMessage(), re.DOTALL)
        if found is not None:
            self.reasons.append((int(found.group(1)), found.group(2)))


def wait_for_executors(patience: str) -> None:
    """How long a task waits for the executor where its anchor is, be it busy or dead."""
    _retune("spark.locality.wait.process", patience)


def speculate(multiplier: str) -> None:
    """A task is copied when it takes this many times as long as the others."""
    _retune("spark.speculation.multiplier", multiplier)


def _retune(key: str, value: str) -> None:
    """Spark looks these settings up anew for every stage, but in the configuration that it was started with."""
    SparkSession.active().sparkContext._jsc.sc().conf().set(key, value)


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
