"""The kinds of engine that a program can ask for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from beadline.errors import ConfigurationError

if TYPE_CHECKING:
    from beadline.master.engines.engine import Engine

OPTION = "beadline.engine"
VARIABLE = "BEADLINE_ENGINE"
SPARK = "spark"
RESIDENT = "resident"
LOCAL = "local"
ALL = (SPARK, RESIDENT, LOCAL)
#: Those that need Spark.
ON_SPARK = (SPARK, RESIDENT)


def chosen(option: str | None) -> str:
    """The kind that the option names, or else the environment variable, or else Spark."""
    name = option or os.environ.get(VARIABLE) or SPARK
    if name not in ALL:
        where = OPTION if option else VARIABLE
        raise ConfigurationError(f"{where} is {name!r}: it must be {SPARK!r}, {RESIDENT!r} or {LOCAL!r}")
    return name


def default_parallelism(local: int | None) -> int:
    """The slots of the active Spark session, or the cores of this machine if there is none. ``local`` is what to say
    instead if tasks run in this machine's one process, or nobody knows yet."""
    if "pyspark" in sys.modules:  # without it there is no session, and its import takes a while
        from beadline.master.spark.session import active_slots

        slots = active_slots(but_local=local is not None)
        if slots is not None:
            return slots
    return local or os.cpu_count() or 1


def make_engine(name: str) -> Engine:
    """An engine of that kind; those on Spark use the active session, or make one."""
    if name == LOCAL:
        from beadline.master.engines.local import LocalEngine  # what runs tasks is not needed on Spark's driver

        return LocalEngine()
    from beadline.master.spark.engine import SparkEngine  # takes a while to import
    from beadline.master.spark.session import find_session

    if name == RESIDENT:
        from beadline.master.spark.resident.engine import ResidentEngine

        return ResidentEngine(find_session(spare_slots=True))
    return SparkEngine(find_session())


def on_one_machine(name: str) -> bool:
    """Whether an engine of that kind has its workers on this machine."""
    if name == LOCAL:
        return True
    from beadline.master.spark.session import find_session, on_one_machine

    return on_one_machine(find_session(spare_slots=name == RESIDENT))
