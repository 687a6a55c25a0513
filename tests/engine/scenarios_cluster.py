"""Executors that are killed: a local cluster of two executors with one core each."""

from __future__ import annotations

import os
from pathlib import Path

from beadline.common import Types
from tests.engine.jobs import (
    ANY,
    STEP,
    Count,
    Outcome,
    environment,
    key_of,
    keyed,
    kill_executor,
    minting,
    numbers,
    run,
    same,
)
from tests.engine.scenarios import main

KILLS = 40 if os.environ.get("BEADLINE_NIGHTLY") else 6
COUNTED = 60
KILL_AT = 30


def counting(folder: Path) -> Outcome:
    """Two levels, many steps; an executor is killed in the middle of one."""
    env = environment()
    at = (KILL_AT - 1) * STEP + STEP // 2
    return run(env, keyed(env, COUNTED * STEP, Count(folder / "kill", (at,), kill_executor)), "counting")


def widening(folder: Path) -> Outcome:
    """Levels of one, two and four subtasks: what is for the last level passes through fewer tasks than it has."""
    env = environment(parallelism=4)
    stream = numbers(env, 4 * STEP).set_parallelism(1).rebalance().map(same).set_parallelism(2)
    return run(env, stream.key_by(key_of, key_type=Types.LONG()).process(Count(), output_type=ANY), "widening")


def repeatable_ids(folder: Path) -> Outcome:
    return _minting(folder, at_random=False)


def random_ids(folder: Path) -> Outcome:
    return _minting(folder, at_random=True)


def _minting(folder: Path, at_random: bool) -> Outcome:
    """Three levels; in some steps an executor is killed between two waves of the third."""
    env = environment(parallelism=4)
    kill_in = tuple(range(3, 3 + 2 * KILLS, 2))
    return run(env, minting(env, (2 * KILLS + 3) * STEP, at_random, folder, kill_in), "minting")


if __name__ == "__main__":
    main(
        "local-cluster[2,1,1024]",
        [counting, widening, repeatable_ids, random_ids],
        # A killed executor is replaced however many there were. On a busy machine a task rather waits for its executor
        # than runs on another.
        {"spark.deploy.maxExecutorRetries": "-1", "spark.locality.wait": "10s"},
    )
