"""The job as a program that sets up nothing itself, to be ended from outside: ``ending.py FOLDER RECORDS PACE WAY``.

The ways: ``execute`` and ``async`` say how it is started; ``publishing`` kills the JVM when it is to publish, ``idle``
waits for more when all is read. ``stop spark`` has a thread that stops Spark when there are new checkpoints; it goes on
with a new session and another retention, until there is none left.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from beadline.common.outer_options import get_overrides
from beadline.errors import EngineLostError
from beadline.master.snapshots.sinks import Sinks
from beadline.master.spark.session import find_session
from tests.recovery.drivers import newest_checkpoint
from tests.recovery.jobs import ENGINE, Numbers, environment, lines_of, to_files

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
RETENTIONS = ["NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"]


def _jvm() -> int:
    return int(SparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def _stop_spark(folder: Path, session: Any, newest: int) -> None:
    while newest_checkpoint(folder) < newest + 2:
        time.sleep(0.02)
    session.stop()


def _die_when_publishing(calls: int = 3) -> None:
    original, left = Sinks.publish, calls

    def publish(self: Sinks, ready: list[Any], **more: Any) -> Any:
        nonlocal left
        left -= bool(ready)
        if left == 0:
            os.kill(_jvm(), signal.SIGKILL)
        return original(self, ready, **more)

    Sinks.publish = publish  # type: ignore[method-assign]


def _lose_spark_often(folder: Path, records: int, pace: float) -> None:
    for retention in RETENTIONS:
        newest = newest_checkpoint(folder)
        stopper = threading.Thread(target=_stop_spark, args=(folder, find_session(), newest))
        stopper.start()
        env = environment(folder, {RETENTION: retention, "execution.state-recovery.path": "latest" if newest else ""})
        to_files(lines_of(env, records, folder, pace=pace), folder)
        try:
            env.execute("recovery")
        except EngineLostError as error:
            stopper.join()
            left = sorted(path.parent.name for path in folder.glob("checkpoints/*/chk-*/_metadata"))
            print(f"{retention}: {left}: {error}")
            if retention is RETENTIONS[-1]:
                raise


def main(folder: Path, records: int, pace: float, way: str) -> None:
    if get_overrides().get(ENGINE) != "local":
        find_session()
        (folder / "jvm").write_text(str(_jvm()))
    (folder / "out").mkdir(exist_ok=True)
    if way == "stop spark":
        _lose_spark_often(folder, records, pace)
        return
    if way == "publishing":
        _die_when_publishing()
    elif way == "idle":
        Numbers.bounded = False
    env = environment(folder, get_overrides())
    to_files(lines_of(env, records, folder, pace=pace), folder)
    if way != "async":
        env.execute("recovery")
        return
    env.execute_async("recovery")
    while True:
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
