"""A job of the scenarios while it runs: wait for its checkpoints, ask for one, cancel it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beadline.checkpoint.coordinator.statistics import CheckpointStatistics, CheckpointStats, CheckpointStatus
from beadline.common import JobStatus
from tests.recovery.jobs import RollingPolicy, differences, environment, lines_of, to_files, visible

PATIENCE = 240.0
started: list[Running] = []


class Running:
    """The job, started and not waited for."""

    def __init__(
        self,
        folder: Path,
        records: int,
        options: Mapping[str, str] | None = None,
        rolling: RollingPolicy | None = None,
        **more: Any,
    ) -> None:
        env = environment(folder, options)
        to_files(lines_of(env, records, folder, **more), folder, rolling)
        self.folder, self.records = folder, records
        started.append(self)
        self.client = env.execute_async("recovery")
        self._master: Any = self.client._control._master  # type: ignore[attr-defined]

    @property
    def _statistics(self) -> CheckpointStatistics:
        running = self._master.running
        return CheckpointStatistics() if running is None else running.checkpoints.coordinator.statistics

    @property
    def checkpoints(self) -> list[CheckpointStats]:
        """What is known of its last checkpoints, oldest first."""
        return sorted(self._statistics, key=lambda stats: stats.id)

    @property
    def completed(self) -> int:
        return self._statistics.completed

    @property
    def failed_checkpoints(self) -> int:
        return self._statistics.failed

    @property
    def status(self) -> JobStatus:
        return self._master.status  # type: ignore[no-any-return]

    @property
    def home(self) -> Path:
        """The folder of its checkpoints."""
        return self.folder / "checkpoints" / str(self._master.job_id)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the checkpoints in its folder."""
        return sorted(int(path.parent.name[4:]) for path in self.home.glob("chk-*/_metadata"))

    @property
    def restarts(self) -> list[tuple[str, str | None]]:
        return [(str(failed.error), failed.restarted_from) for failed in self._master.history]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert not self._master.wait(0), f"the job ended: {self._master.error!r}"
            assert time.monotonic() < until, f"not within {PATIENCE} s: {self._master!r}"
            time.sleep(0.01)

    def wait_for_checkpoints(self, count: int) -> None:
        self.wait_until(lambda: self.completed >= count)

    def end(self) -> str:
        """Wait for the end; gives the error, or nothing."""
        assert self._master.wait(PATIENCE), f"no end within {PATIENCE} s: {self._master!r}"
        return "" if self._master.error is None else str(self._master.error)

    def finish(self, without: range = range(0)) -> None:
        """Wait for the end: every line is there once.

        :param without: numbers that were never processed
        """
        assert self.end() == ""
        assert differences(visible(self.folder), self.records, without=without) == []

    def cancel(self) -> None:
        self.client.cancel().result()

    def good_checkpoints(self) -> list[CheckpointStats]:
        return [stats for stats in self.checkpoints if stats.status is CheckpointStatus.COMPLETED]


def cancel_all() -> None:
    """End whatever a scenario left running that broke off."""
    while started:
        job = started.pop()
        if not job._master.wait(0):
            job.cancel()
