"""The types of ``pyflink.table``, which file formats of the DataStream API take. The Table API itself is not here.

Programs import its names without using them, so PyFlink's own names can be imported: each is a placeholder, which
raises an error where it is used.
"""

from __future__ import annotations

from typing import Any

from beadline.pyflink_alias import UnsupportedModuleError
from beadline.table.placeholders import NAMES, placeholder
from beadline.table.types import DataTypes, RowField, RowType

__all__ = ["DataTypes", "RowField", "RowType"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in NAMES:
        return placeholder(name)
    raise UnsupportedModuleError(f"pyflink.table.{name}")
