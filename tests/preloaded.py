"""Spark's daemon for Python workers, with what every worker imports there already: ``spark.python.daemon.module``.

Spark's own one imports nothing, so each worker it forks spends a second of CPU on pandas, pyarrow and the engine. Tests
that kill workers, or fail in them, start hundreds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads before the fork

import pandas  # noqa: F401
import pyarrow.pandas_compat  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import beadline.runtime.task.entry  # noqa: F401

if __name__ == "__main__":
    manager()
