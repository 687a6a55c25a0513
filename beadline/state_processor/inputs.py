"""Checks of the DataFrames that a savepoint is made of, before any task runs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType

from beadline.errors import ConfigurationError

_SHAPES = {"list": (ArrayType, "an array, its elements"), "map": (MapType, "a map")}


def check_columns(df: DataFrame, columns: list[str], owner: str) -> None:
    """The columns must be there."""
    if not isinstance(df, DataFrame):
        raise ConfigurationError(f"{owner} is made of a Spark DataFrame, got {type(df).__name__}")
    if df.isStreaming:
        raise ConfigurationError(f"{owner} is made of a bounded DataFrame, got a stream")
    missing = [name for name in columns if name not in df.columns]
    if missing:
        raise ConfigurationError(
            f"{owner}: the DataFrame has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, df.columns)) or 'none'}"
        )


def check_shape(df: DataFrame, value: str, kind: str, owner: str) -> None:
    """Lists come as arrays and maps as maps, one row for each key."""
    if kind not in _SHAPES:
        return
    wanted, what = _SHAPES[kind]
    found = df.schema[value].dataType
    if not isinstance(found, wanted):
        raise ConfigurationError(
            f"{owner} is a {kind} state: column '{value}' holds {what} of one key, and here it "
            f"is {found.simpleString()}"
        )
