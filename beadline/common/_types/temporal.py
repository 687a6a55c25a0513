"""Dates, times of day and timestamps."""

from __future__ import annotations

import calendar
import datetime
import time
from enum import Enum
from typing import Any

from beadline.common._types.base import Converter, Formatter, TypeInformation, mismatch, nullable
from beadline.common._types.javatext import local_date_time_text, local_time_text, time_text, timestamp_text

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_MICROS = 1_000_000


def _date_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> datetime.date:
        if type(value) is datetime.date:
            return value
        if isinstance(value, datetime.date):  # a datetime is a date too; its time of day is left out, as in PyFlink
            return datetime.date(value.year, value.month, value.day)
        raise mismatch(info, "a datetime.date", value)

    return convert


def _millisecond_converter(info: TypeInformation, kind: type[Any], *parts: str) -> Converter:
    """Takes values of ``kind``, which has these parts and microseconds, and cuts them off after the millisecond."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise mismatch(info, f"a datetime.{kind.__name__}", value)
        micros = value.microsecond
        if value.tzinfo is None and micros % 1000 == 0 and type(value) is kind:
            return value
        return kind(*(getattr(value, part) for part in parts), micros - micros % 1000)

    return convert


class SqlTimeTypeInfo(TypeInformation):
    """Gives the three types of dates and times."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


class _ConvertedTypeInfo(TypeInformation):
    def need_conversion(self) -> bool:
        return True

    def __repr__(self) -> str:
        return type(self).__name__


class DateTypeInfo(_ConvertedTypeInfo):
    """The type of ``datetime.date``."""

    EPOCH_ORDINAL = _EPOCH_ORDINAL

    def to_internal_type(self, d: datetime.date | None) -> int | None:
        """Days since 1970-01-01."""
        return None if d is None else d.toordinal() - _EPOCH_ORDINAL

    def from_internal_type(self, v: int | None) -> datetime.date | None:
        return None if v is None else datetime.date.fromordinal(v + _EPOCH_ORDINAL)

    def converter(self) -> Converter:
        return _date_converter(self)

    def java_text(self) -> Formatter:
        return datetime.date.isoformat


class TimeTypeInfo(_ConvertedTypeInfo):
    """The type of ``datetime.time``, without time zone and exact to the millisecond."""

    # PyFlink counts a naive time from local midnight: the zone's offset at the epoch is taken off.
    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * _MICROS

    def to_internal_type(self, t: datetime.time | None) -> int | None:
        """Microseconds since midnight in UTC."""
        if t is None:
            return None
        offset = self.EPOCH_ORDINAL
        if t.tzinfo is not None:
            offset = (t.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
        return ((t.hour * 60 + t.minute) * 60 + t.second) * _MICROS + t.microsecond - offset

    def from_internal_type(self, t: int | None) -> datetime.time | None:
        if t is None:
            return None
        seconds, micros = divmod(t + self.EPOCH_ORDINAL, _MICROS)
        return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)

    def converter(self) -> Converter:
        return _millisecond_converter(self, datetime.time, "hour", "minute", "second")

    def java_text(self) -> Formatter:
        return time_text


class TimestampTypeInfo(_ConvertedTypeInfo):
    """The type of ``datetime.datetime``, without time zone and exact to the millisecond."""

    def to_internal_type(self, dt: datetime.datetime | None) -> int | None:
        """Microseconds since 1970-01-01T00:00Z; a naive value is taken as local time."""
        if dt is None:
            return None
        seconds = calendar.timegm(dt.utctimetuple()) if dt.tzinfo else int(time.mktime(dt.timetuple()))
        return seconds * _MICROS + dt.microsecond

    def from_internal_type(self, ts: int | None) -> datetime.datetime | None:
        if ts is None:
            return None
        seconds, micros = divmod(ts, _MICROS)
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=micros)

    def converter(self) -> Converter:
        return _millisecond_converter(self, datetime.datetime, "year", "month", "day", "hour", "minute", "second")

    def java_text(self) -> Formatter:
        return timestamp_text


class LocalTimeTypeInfo(TypeInformation):
    """A date, a time of day or both, exact to the microsecond; None is a value of it. Table sources use it."""

    class TimeType(Enum):
        """Which of the three."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        self._time_type = time_type

    def converter(self) -> Converter:
        kind, _ = _LOCAL[self._time_type]

        def convert(value: Any) -> Any:
            if value is None or type(value) is kind:
                return value
            if kind is datetime.date and isinstance(value, datetime.datetime):
                return value.date()
            raise mismatch(self, f"a datetime.{kind.__name__} or None", value)

        return convert

    def java_text(self) -> Formatter:
        return nullable(_LOCAL[self._time_type][1])

    def _identity(self) -> tuple[Any, ...]:
        return (self._time_type,)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


_LOCAL: dict[LocalTimeTypeInfo.TimeType, tuple[type, Formatter]] = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: (datetime.date, datetime.date.isoformat),
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: (datetime.time, local_time_text),
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: (datetime.datetime, local_date_time_text),
}
