"""Executors that are killed: a local cluster of two executors with one core each."""

from __future__ import annotations

import os
from pathlib import Path

from beadline.common import Types
from beadline.master import spark as spark_module
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

KILLS = 40 if os.environ.get("BEADLINE_NIGHTLY") else 2

COUNTING_STEPS = 50
COUNTING_KILL = 25


def counting(folder: Path) -> Outcome:
    """Two levels, many steps; an executor is killed in the middle of one."""
    env = environment()
    at = (COUNTING_KILL - 1) * STEP + STEP // 2
    return run(env, keyed(env, COUNTING_STEPS * STEP, Count(folder / "accident", (at,), kill_executor)), "counting")


def widening(folder: Path) -> Outcome:
    """Levels of one, two and four subtasks: what is for the last level passes through fewer tasks than it has."""
    env = environment(parallelism=4)
    stream = numbers(env, 3 * STEP).set_parallelism(1).rebalance().map(same).set_parallelism(2)
    return run(env, stream.key_by(key_of, key_type=Types.LONG()).process(Count(), output_type=ANY), "widening")


def repeatable_ids(folder: Path) -> Outcome:
    return _minting(folder, at_random=False, kills=KILLS)


def random_ids(folder: Path) -> Outcome:
    """Spark 4 finds by itself that the second output of a task differs from the first; here it does not look."""
    settings = spark_module._STEP_SESSION
    spark_module._STEP_SESSION = {
        **settings,
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    }
    try:
        return _minting(folder, at_random=True, kills=KILLS)
    finally:
        spark_module._STEP_SESSION = settings


def random_ids_that_spark_compares(folder: Path) -> Outcome:
    return _minting(folder, at_random=True, kills=1)


def minting_steps(kills: int) -> int:
    return 2 * kills + 3


def _minting(folder: Path, at_random: bool, kills: int) -> Outcome:
    """Three levels of four subtasks on two slots; in every second step an executor is killed between two waves of the
    third level."""
    env = environment(parallelism=4)
    kill_in = tuple(range(3, 3 + 2 * kills, 2))
    return run(env, minting(env, minting_steps(kills) * STEP, at_random, folder, kill_in), "minting")


if __name__ == "__main__":
    main(
        "local-cluster[2,1,1024]",
        [counting, widening, repeatable_ids, random_ids, random_ids_that_spark_compares],
        # A killed executor is replaced however many there were. On a busy machine a task rather waits for its executor
        # than runs on another.
        {"spark.deploy.maxExecutorRetries": "-1", "spark.locality.wait": "5s"},
    )
