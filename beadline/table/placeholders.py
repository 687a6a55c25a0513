"""What stands for a name of the Table API until a program uses it."""

from __future__ import annotations

import sys
from functools import cache
from types import FrameType
from typing import Any, NoReturn

from beadline.errors import UnsupportedFeatureError
from beadline.pyflink_alias import reason_against

#: The names of ``pyflink.table`` that programs import beside those of the DataStream API.
NAMES = frozenset(
    {
        "AggregateFunction",
        "CatalogDescriptor",
        "ChangelogMode",
        "CsvTableSink",
        "CsvTableSource",
        "EnvironmentSettings",
        "ExplainDetail",
        "FormatDescriptor",
        "FunctionContext",
        "GroupWindowedTable",
        "GroupedTable",
        "ListView",
        "MapView",
        "Module",
        "ModuleEntry",
        "OverWindowedTable",
        "ResultKind",
        "ScalarFunction",
        "Schema",
        "SqlDialect",
        "StatementSet",
        "StreamTableEnvironment",
        "Table",
        "TableAggregateFunction",
        "TableConfig",
        "TableDescriptor",
        "TableEnvironment",
        "TableFunction",
        "TableResult",
        "TableSchema",
        "TableSink",
        "TableSource",
        "UserDefinedType",
        "WindowGroupedTable",
        "WriteMode",
    }
)


class _Placeholder(type):
    """Its classes can be named, as in an annotation, and nothing else."""

    def __getattribute__(cls, name: str) -> Any:
        # Python itself asks for names with underscores, when a class is compared, shown or pickled.
        if not name.startswith("_"):
            _refuse(f"{_name(cls)}.{name}")
        return type.__getattribute__(cls, name)

    def __call__(cls, *arguments: Any, **named: Any) -> NoReturn:
        _refuse(f"{_name(cls)}()")


@cache
def placeholder(name: str) -> type:
    """A class that stands for a name of ``pyflink.table``, always the same one. It can be imported, and raises an
    UnsupportedFeatureError where it is called, derived from, or asked for an attribute."""

    def derived(cls: Any, /, **named: Any) -> None:
        _refuse(f"pyflink.table.{name} as the base of {cls.__name__}")

    # The module is the real one, so that workers, which have no pyflink, find what a function mentions.
    return _Placeholder(name, (), {"__module__": "beadline.table", "__init_subclass__": classmethod(derived)})


def _name(cls: type) -> str:
    return f"pyflink.table.{cls.__name__}"


def _refuse(what: str) -> NoReturn:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    place = "" if frame is None else f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
    raise UnsupportedFeatureError(f"{what} is not supported by Beadline: {reason_against('table')}{place}.")
