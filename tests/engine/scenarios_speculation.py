"""Speculative copies of slow tasks: a local cluster of two executors that seem to be on two hosts.

Spark starts no copy of a task on a host where the task already runs, and all executors of a local cluster have the
host's own name. Here they are started by a ``java`` that gives every second one another loopback address.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beadline.datastream import KeyedProcessFunction
from tests.engine.jobs import STEP, Accident, Count, Outcome, environment, keyed, run
from tests.engine.scenarios import speculate, wait_for_executors

STEPS = 6
SLOW = (2 * STEP + 50, 4 * STEP + 50)

NEVER = "1000000"
# A session that makes copies as soon as a scenario asks for them.
IMPATIENT = {
    "spark.locality.wait": "0",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": NEVER,
}

_JAVA = """\
#!/bin/bash
arguments=("$@")
for i in "${!arguments[@]}"; do
    case "${arguments[$i]}" in
        --hostname) hostname=$((i + 1)) ;;
        --executor-id) number="${arguments[$((i + 1))]}" ;;
    esac
done
if [ -n "${hostname:-}" ] && [ $((number % 2)) = 1 ]; then
    arguments[$hostname]=127.0.0.2
fi
exec JAVA "${arguments[@]}"
"""


class Hesitate(Count):
    """Counts. At some numbers, the first that gets there waits until a copy of its task has got there too."""

    def __init__(self, folder: Path, at: tuple[int, ...]) -> None:
        super().__init__()
        self._folder = str(folder)
        self._at = at

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield from super().process_element(value, ctx)
        if value in self._at and not Accident(f"{self._folder}/slow-{value}").happens():
            Path(f"{self._folder}/accident-{value}").touch()
        elif value in self._at:
            patience = time.monotonic() + 60
            while not Path(f"{self._folder}/accident-{value}").exists() and time.monotonic() < patience:
                time.sleep(0.05)


def slow_tasks(folder: Path) -> Outcome:
    wait_for_executors("0")
    speculate("1.1")
    try:
        env = environment(options={"execution.checkpointing.data-inline-threshold": "0 bytes"})
        return run(env, keyed(env, STEPS * STEP, Hesitate(folder, SLOW)), "slow tasks")
    finally:
        speculate(NEVER)


def two_hosts(folder: Path) -> str:
    """A Java home whose ``java`` starts executors on two addresses."""
    own = os.environ.get("JAVA_HOME")
    java = f"{own}/bin/java" if own else shutil.which("java")
    assert java is not None
    script = folder / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_JAVA.replace("JAVA", java))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(folder)
