"""Spark sessions of the processes that tests start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from beadline.master.spark import class_archive

# A session that lives for a minute doesn't win back the time of the optimizing compiler.
_FEW_THREADS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Starts Python workers that have imported what they need.
DAEMON = "tests.preloaded"
#: Options for a driver's JVM that starts quickly.
QUICK_JAVA = f"{_FEW_THREADS} {class_archive.options()}".strip()


def start_session(master: str = "local[2]", options: Mapping[str, str] | None = None) -> SparkSession:
    """A session that starts quickly; ``options`` come on top."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master)
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.python.daemon.module": DAEMON,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": _FEW_THREADS,
        **(options or {}),
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
