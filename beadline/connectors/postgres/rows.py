"""Records as rows of a table."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import chain
from typing import Any

from beadline.common.time import Instant
from beadline.common.types import Row
from beadline.errors import TypeMismatchError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# What goes into a row as it is.
_PLAIN = frozenset({int, str, float, bool, bytes, type(None), dt.datetime, dt.date, dt.time, dt.timedelta})
_SHOWN = 80


@dataclass(frozen=True)
class ToRows:
    """Gives the values of a record, one for each column: those of a row, tuple or list by position, those of a dict or
    of an object by the names of the columns."""

    columns: tuple[str, ...]

    def __call__(self, records: list[Any], timestamps: list[int] | None) -> list[tuple[Any, ...]]:
        """Looks at all records at once: that is several times faster than one at a time."""
        kinds = set(map(type, records))
        if kinds == {tuple}:
            rows = records
        elif kinds == {Row}:
            rows = [tuple(record._values) for record in records]
        else:
            rows = list(map(self._values, records))
        width = len(self.columns)
        if set(map(len, rows)) - {width}:
            wrong = next(row for row in rows if len(row) != width)
            raise TypeMismatchError(
                f"a record has {len(wrong)} values for the {width} columns {', '.join(self.columns)}: {_shown(wrong)}"
            )
        if _PLAIN.issuperset(map(type, chain.from_iterable(rows))):
            return rows
        return [tuple(map(plain, row)) for row in rows]

    def _values(self, record: Any) -> tuple[Any, ...]:
        if isinstance(record, Row):
            return tuple(record._values)
        if isinstance(record, (tuple, list)):
            return tuple(record)
        try:
            if isinstance(record, dict):
                return tuple([record[column] for column in self.columns])
            return tuple([getattr(record, column) for column in self.columns])
        except (KeyError, AttributeError):
            raise TypeMismatchError(
                f"a record is not a Row, tuple or list, and lacks some of the columns {', '.join(self.columns)}: "
                f"{_shown(record)}"
            ) from None


def plain(value: Any) -> Any:
    """A value as psycopg takes it and as plain data: instants are points in time, rows within rows are tuples."""
    if isinstance(value, Instant):
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if isinstance(value, Row):
        return tuple(map(plain, value._values))
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
