"""What fails while a job runs: its functions, its workers, its disk. One session for all of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beadline.common import Types
from beadline.datastream import KeyedProcessFunction, RuntimeContext
from beadline.datastream.connectors.file_system import RollingPolicy
from beadline.datastream.state import ValueStateDescriptor
from tests.recovery.jobs import (
    STEP,
    Accident,
    Sabotage,
    differences,
    environment,
    lines_of,
    visible,
)
from tests.recovery.running import Running
from tests.recovery.telling import tell_all
from tests.sessions import start_session

MANY = {"execution.checkpointing.tolerable-failed-checkpoints": "1000"}
NEVER = {"execution.checkpointing.interval": "1 h"}
OFF = {"execution.checkpointing.interval": "", "execution.checkpointing.dir": ""}


# -- functions and workers


def functions_that_fail(folder: Path) -> dict[str, Any]:
    """In ``snapshot_state``, in ``initialize_state`` after that, in ``process_element``, and at last in ``close``."""
    records = 8 * STEP
    fails_in = ("snapshot", "restore", "close")
    job = Running(folder, records, accidents={4 * STEP: "fail"}, fails_in=fails_in)
    return {"failed": job.end(), "problems": differences(visible(folder), records), "restarts": job.restarts}


def collected_once(folder: Path) -> dict[str, Any]:
    """A worker is killed, a function fails, and what ``execute_and_collect`` gives comes once."""
    records = 7 * STEP
    env = environment(folder)
    stream = lines_of(env, records, folder, accidents={STEP: "kill", 4 * STEP: "fail"})
    lines = list(stream.execute_and_collect("recovery"))
    accidents = sorted(path.name for path in folder.glob("accident-*"))
    return {"problems": differences(lines, records), "accidents": accidents}


class Add(KeyedProcessFunction):
    """Adds up what comes. At one sum, once, it fails behind its update."""

    def __init__(self, accident: Accident | None = None, at: int = 0) -> None:
        self._accident, self._at = accident, at

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        total = (self._sum.value() or 0) + value
        self._sum.update(total)
        if self._accident is not None and total >= self._at and self._accident.happens():
            raise Sabotage(f"at {total}")
        yield total


def _zero(value: int) -> int:
    return 0


def three_operators(folder: Path) -> dict[str, Any]:
    """A source, a sum, and a sum of sums; one element a step. The crash comes when the first sum has seen an element
    that the second has not."""
    env = environment(folder, {"beadline.step.first-records": "1", "beadline.step.max-records": "1"})
    env.set_parallelism(1)
    first = env.from_sequence(1, 8).key_by(_zero, key_type=Types.LONG()).process(Add(), output_type=Types.LONG())
    crash = Accident(folder, "between", gate=None)
    second = first.key_by(_zero, key_type=Types.LONG()).process(Add(crash, at=20), output_type=Types.LONG())
    return {"sums": list(second.execute_and_collect("three operators")), "crashed": crash.happened}


# -- modes


def at_least_once(folder: Path) -> dict[str, Any]:
    """Rows are visible before any checkpoint; after a failure there is none to go back to, so that all comes again."""
    records = 5 * STEP
    options = {**NEVER, "execution.checkpointing.mode": "AT_LEAST_ONCE"}
    rolling = RollingPolicy.default_rolling_policy(part_size=1)
    job = Running(folder, records, options, rolling, accidents={3 * STEP: "fail"}, gate=None)
    job.wait_until(lambda: bool(visible(folder)))
    early = job.completed
    failed = job.end()
    lines = visible(folder)
    return {"failed": failed, "early": early, "lost": [p for p in differences(lines, records) if "lost 0" not in p]}


def at_least_once_rolls(folder: Path) -> dict[str, Any]:
    """Parts that are complete at checkpoints only don't wait for the end of the job in this mode either."""
    records = 6 * STEP
    job = Running(folder, records, {"execution.checkpointing.mode": "AT_LEAST_ONCE"})
    job.wait_until(lambda: bool(visible(folder)))
    return {"failed": job.end(), "problems": differences(visible(folder), records)}


def exactly_once_waits(folder: Path) -> dict[str, Any]:
    """The same in the other mode: nothing is visible before a checkpoint, and only the last step brings one."""
    records = 5 * STEP
    rolling = RollingPolicy.default_rolling_policy(part_size=1)
    job = Running(folder, records, NEVER, rolling, accidents={3 * STEP: "fail"}, gate=None)
    job.wait_until(lambda: bool(job.restarts))
    early = len(visible(folder))
    return {"failed": job.end(), "early": early, "problems": differences(visible(folder), records)}


def at_most_once(folder: Path) -> dict[str, Any]:
    """No checkpoints: the step that failed is left out, what was before it stays."""
    records = 6 * STEP
    job = Running(folder, records, OFF, accidents={3 * STEP + 5: "fail"}, gate=None)
    failed = job.end()
    problems = differences(visible(folder), records, without=range(3 * STEP, 4 * STEP))
    return {"failed": failed, "problems": problems, "restarts": job.restarts}


# -- where checkpoints go


def a_folder_that_is_away(folder: Path) -> dict[str, Any]:
    """For some intervals a file lies where the folder of checkpoints should be; meanwhile a checkpoint fails, and then
    a function."""
    records = 14 * STEP
    job = Running(folder, records, MANY, accidents={5 * STEP: "fail"}, gate="now", pace=0.01)
    job.wait_for_checkpoints(1)
    away = job.home.with_name("away")
    job.home.rename(away)
    job.home.touch()
    before = job.completed
    job.wait_until(lambda: job.failed_checkpoints > 0)
    (folder / "now").touch()
    job.wait_until(lambda: len(job.restarts) >= 3)  # the second and third time there is nothing to go back to
    during = job.completed
    job.home.unlink()
    away.rename(job.home)
    return {
        "failed": job.end(),
        "during": during - before,
        "after": job.completed - during,
        "problems": differences(visible(folder), records),
        "restarts": job.restarts,
    }


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    place = folder / "checkpoints"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def a_full_disk(folder: Path) -> dict[str, Any]:
    """Another one fills the disk for a while; then it is read-only for a while."""
    if os.geteuid() != 0:
        return {"skipped": "only root can make a small disk"}
    records = 16 * STEP
    with _small_disk(folder) as disk:
        job = Running(folder, records, MANY)
        job.wait_for_checkpoints(1)
        big = disk / "big"
        with big.open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError:
                pass
        job.wait_until(lambda: job.failed_checkpoints >= 2)
        full = [stats.failure for stats in job.checkpoints if stats.failure]
        big.unlink()
        so_far = job.completed
        job.wait_for_checkpoints(so_far + 1)
        failures = job.failed_checkpoints
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        job.wait_until(lambda: job.failed_checkpoints >= failures + 2)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        return {"failed": job.end(), "full": full, "problems": differences(visible(folder), records)}


SCENARIOS = [
    functions_that_fail,
    collected_once,
    three_operators,
    at_least_once,
    at_least_once_rolls,
    exactly_once_waits,
    at_most_once,
    a_folder_that_is_away,
    a_full_disk,
]

if __name__ == "__main__":
    session = start_session()
    tell_all(SCENARIOS)
    session.stop()
