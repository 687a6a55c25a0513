"""Executors that are killed, and tasks that run twice: a local cluster of two executors with one core each."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from beadline.common import Types
from beadline.master.spark import engine as spark_module
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
from tests.engine.scenarios import main, wait_for_executors
from tests.engine.scenarios_speculation import IMPATIENT, slow_tasks, two_hosts

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))
KILLS = 40 if NIGHTLY else 2

COUNTING_STEPS = 50 if NIGHTLY else 20
COUNTING_KILL = COUNTING_STEPS // 2


def counting(folder: Path) -> Outcome:
    """Two levels, many steps; an executor is killed in the middle of one.

    On a busy machine a task rather waits for its executor than runs on another.
    """
    wait_for_executors("10s")
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
    return 2 * kills + 1


def killed_steps(kills: int) -> tuple[int, ...]:
    return tuple(range(2, 2 * kills + 1, 2))


def _minting(folder: Path, at_random: bool, kills: int) -> Outcome:
    """Three levels of four subtasks on two slots; in every second step an executor is killed between two waves of the
    third level."""
    wait_for_executors("500ms")
    env = environment(parallelism=4)
    return run(env, minting(env, minting_steps(kills) * STEP, at_random, folder, killed_steps(kills)), "minting")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as java_home:
        main(
            "local-cluster[2,1,1024]",
            # Killed executors are replaced on any host, and speculation needs two: it comes first.
            [slow_tasks, counting, widening, repeatable_ids, random_ids, random_ids_that_spark_compares],
            {
                "spark.executorEnv.JAVA_HOME": two_hosts(Path(java_home)),
                **IMPATIENT,
                # A killed executor is replaced however many there were.
                "spark.deploy.maxExecutorRetries": "-1",
                # Who asks a dead executor for its shuffle files need not ask for long.
                "spark.shuffle.io.maxRetries": "1",
                "spark.shuffle.io.retryWait": "500ms",
            },
        )
