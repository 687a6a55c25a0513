"""Python workers that are killed where Spark tries a task up to four times."""

from __future__ import annotations

from pathlib import Path

from tests.engine.jobs import KILLED_WORKER_JOBS, Outcome, run_with_killed_workers
from tests.engine.scenarios import main


def in_a_map(folder: Path) -> Outcome:
    return run_with_killed_workers("in_a_map", folder)


def after_a_change_in_place(folder: Path) -> Outcome:
    return run_with_killed_workers("after_a_change_in_place", folder)


if __name__ == "__main__":
    scenarios = [in_a_map, after_a_change_in_place]
    assert [scenario.__name__ for scenario in scenarios] == list(KILLED_WORKER_JOBS)
    main("local[2,4]", scenarios)
