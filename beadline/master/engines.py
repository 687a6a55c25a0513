"""The kinds of engine that a program can ask for."""

from __future__ import annotations

import os

from beadline.errors import ConfigurationError
from beadline.master.engine import Engine
from beadline.master.local import LocalEngine

OPTION = "beadline.engine"
VARIABLE = "BEADLINE_ENGINE"
SPARK = "spark"
LOCAL = "local"


def chosen(option: str | None) -> str:
    """The kind that the option names, or else the environment variable, or else Spark."""
    name = option or os.environ.get(VARIABLE) or SPARK
    if name not in (SPARK, LOCAL):
        where = OPTION if option else VARIABLE
        raise ConfigurationError(f"{where} is {name!r}: it must be {SPARK!r} or {LOCAL!r}")
    return name


def make_engine(name: str) -> Engine:
    """An engine of that kind; the Spark engine uses the active session, or makes one."""
    if name == LOCAL:
        return LocalEngine()
    from beadline.master.spark.engine import SparkEngine  # takes a while to import
    from beadline.master.spark.session import find_session

    return SparkEngine(find_session())
