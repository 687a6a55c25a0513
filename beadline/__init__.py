"""Beadline: PyFlink DataStream programs, run unmodified on Apache Spark.

Start from :class:`beadline.datastream.StreamExecutionEnvironment`, or keep a program's ``pyflink`` imports as they are
and run it with ``beadline run --pyflink job.py``.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["__version__", "register_state_class"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names that are useful here, loaded only when a program uses them."""
    if name == "register_state_class":
        return importlib.import_module("beadline.state.codec").register_state_class
    raise AttributeError(f"module 'beadline' has no attribute {name!r}")
