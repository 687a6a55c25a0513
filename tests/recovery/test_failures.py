"""Something fails while the job runs, and its files are those of a job where nothing failed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from beadline.common import Types
from beadline.datastream import KeyedProcessFunction, RuntimeContext
from beadline.datastream.connectors.file_system import RollingPolicy
from beadline.datastream.state import ValueStateDescriptor
from tests.disks import fill, small_disk_at
from tests.recovery.jobs import STEP, Accident, Sabotage, differences, environment, lines_of, visible
from tests.recovery.running import Running

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine", "no_job_left")]

MANY = {
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    "execution.checkpointing.interval": "100 ms",
}
NEVER = {"execution.checkpointing.interval": "1 h"}
OFF = {"execution.checkpointing.interval": "", "execution.checkpointing.dir": ""}
AT_LEAST_ONCE = {"execution.checkpointing.mode": "AT_LEAST_ONCE"}


# -- functions and workers


@pytest.mark.spark
def test_a_function_that_fails_in_snapshot_in_restore_in_process_and_at_close(tmp_path: Path) -> None:
    job = Running(tmp_path, 8 * STEP, accidents={4 * STEP: "fail"}, fails_in=("snapshot", "restore", "close"))
    job.finish()
    reasons = [re.sub(r".*Sabotage: ", "", error) for error, _ in job.restarts]
    assert [reason for reason in reasons if reason.startswith("in ")] == ["in snapshot", "in restore", "in close"]
    assert all(start is not None and start.startswith("checkpoint ") for _, start in job.restarts)
    assert (tmp_path / f"accident-fail-{4 * STEP}").exists()
    others = [error for error, _ in job.restarts if not re.search("Sabotage: in ", error)]
    assert len(others) <= 1, "in one step with another, it is one failure"
    for error in others:
        assert re.search(r"operator 'KEYED PROCESS' \([\w.]+:\d+, subtask \d\) failed at record \(24\d, 12\d\)", error)


@pytest.mark.spark
def test_a_killed_worker_and_a_failure_and_records_that_are_collected_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lines_of(environment(tmp_path), 7 * STEP, tmp_path, accidents={STEP: "kill", 4 * STEP: "fail"})
    assert differences(list(stream.execute_and_collect("recovery")), 7 * STEP) == []
    accidents = sorted(path.name for path in tmp_path.glob("accident-*"))
    assert accidents == ["accident-fail-240", "accident-kill-60"]
    assert any(re.search(r"step \d+ is run again .*worker exited", line, re.DOTALL) for line in caplog.messages)
    assert sum("attempt" in line for line in caplog.messages) == 1, "a killed worker is no restart"


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


def test_a_crash_between_three_operators(tmp_path: Path) -> None:
    """The crash comes when the first sum has seen an element that the second has not. Snapshots taken one by one, as
    they come, would lose an element between the operators and give other sums."""
    env = environment(tmp_path, {"beadline.step.first-records": "1", "beadline.step.max-records": "1"})
    env.set_parallelism(1)
    crash = Accident(tmp_path, "between", gate=None)
    stream = env.from_sequence(1, 8)
    for function in (Add(), Add(crash, at=20)):
        stream = stream.key_by(lambda value: 0, key_type=Types.LONG()).process(function, output_type=Types.LONG())
    assert list(stream.execute_and_collect("three operators")) == list(accumulate(accumulate(range(1, 9))))
    assert crash.happened


# -- modes


def test_at_least_once_shows_rows_before_a_checkpoint_and_shows_them_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the failure there is no checkpoint to go back to, so that all comes again."""
    rolling = RollingPolicy.default_rolling_policy(part_size=1)
    options = {**NEVER, **AT_LEAST_ONCE}
    job = Running(tmp_path, 5 * STEP, options, rolling, accidents={3 * STEP: "fail"}, gate=None)
    job.wait_until(lambda: bool(visible(tmp_path)))
    assert job.completed == 0, "no checkpoint had completed when the first rows were visible"
    assert job.end() == ""
    assert [problem for problem in differences(visible(tmp_path), 5 * STEP) if "lost 0" not in problem] == []
    assert any("its rows come again" in line for line in caplog.messages)
    assert "at-least-once (execution.checkpointing.mode is AT_LEAST_ONCE)" in caplog.text


def test_at_least_once_shows_parts_that_checkpoints_complete(tmp_path: Path) -> None:
    """They don't wait for the end of the job in this mode either."""
    job = Running(tmp_path, 6 * STEP, AT_LEAST_ONCE, pace=0.005)
    job.wait_until(lambda: bool(visible(tmp_path)))
    job.finish()


def test_exactly_once_shows_nothing_before_a_checkpoint(tmp_path: Path) -> None:
    """Only the last step brings one."""
    rolling = RollingPolicy.default_rolling_policy(part_size=1)
    job = Running(tmp_path, 5 * STEP, NEVER, rolling, accidents={3 * STEP: "fail"}, gate=None)
    job.wait_until(lambda: bool(job.restarts))
    assert visible(tmp_path) == []
    job.finish()


@pytest.mark.spark
def test_at_most_once_goes_on_behind_the_step_that_failed(tmp_path: Path) -> None:
    """No checkpoints: the step that failed is left out, what was before it stays."""
    job = Running(tmp_path, 6 * STEP, OFF, accidents={3 * STEP + 5: "fail"}, gate=None)
    job.finish(without=range(3 * STEP, 4 * STEP))
    ((error, start),) = job.restarts
    assert "at record" in error
    assert start == "after the step that failed"


# -- where checkpoints go


def test_a_checkpoint_folder_that_is_away_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file lies where the folder should be; meanwhile a checkpoint fails, and then a function."""
    job = Running(tmp_path, 14 * STEP, MANY, accidents={5 * STEP: "fail"}, gate="now", pace=0.004)
    job.wait_for_checkpoints(1)
    away = job.home.with_name("away")
    job.home.rename(away)
    job.home.touch()
    before = job.completed
    job.wait_until(lambda: job.failed_checkpoints > 0)
    (tmp_path / "now").touch()
    job.wait_until(lambda: len(job.restarts) >= 3)  # the second and third time there is nothing to go back to
    assert job.completed == before
    job.home.unlink()
    away.rename(job.home)
    job.finish()
    assert job.completed > before
    reasons = [error for error, _ in job.restarts]
    assert "Sabotage" in reasons[0]
    assert all("The folder of the job is away" in reason for reason in reasons[1:])
    assert any(re.search(r"checkpoint \d+ failed: can't write", line) for line in caplog.messages)


def test_a_full_disk_and_one_that_is_read_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another one fills the disk for a while; then it is read-only for a while."""
    with small_disk_at(tmp_path / "checkpoints", "1m") as disk:
        job = Running(tmp_path, 16 * STEP, MANY, pace=0.004)
        job.wait_for_checkpoints(1)
        big = fill(disk)
        job.wait_until(lambda: job.failed_checkpoints >= 2)
        assert any("No space left on device" in (stats.failure or "") for stats in job.checkpoints)
        big.unlink()
        job.wait_for_checkpoints(job.completed + 1)
        failures = job.failed_checkpoints
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        job.wait_until(lambda: job.failed_checkpoints >= failures + 2)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        job.finish()
    assert "Free some space there" in caplog.text
    assert "Read-only file system" in caplog.text
