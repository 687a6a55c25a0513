"""Values of one type as an Arrow array and back, exactly.

A column takes what the declared type means and nothing else: an ``int`` where a double is declared, a subclass of
``str``, a number too wide. It names the values it can't take, and their rows go into the ``pickled`` column (see
:mod:`beadline.state.parquet.columns`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from beadline.common.time import Instant
from beadline.state.codec import Frozen, check, dumps, freeze, is_immutable, loads, thaw, thaw_as_written

_NONE = type(None)
_MICROS = 1_000_000
_LONGEST = 1 << 63
_TOO_LARGE = 10**38
# What a pickle of a list, dict or set begins with, after its version and its frame.
_MUTABLE = frozenset(b"]}\x8f")
_IMMUTABLE = frozenset({("builtins", "complex")})
_FRAMED, _FIRST = b"\x80\x05\x95", 11


class Built(NamedTuple):
    """An array, and the positions of the values that it can't hold; those are null."""

    array: pa.Array
    bad: Collection[int]


def array_of(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """An array; raises :class:`pa.ArrowCapacityError` where Arrow would need several, at 2 GB of text or bytes."""
    array = pa.array(values, arrow)
    if isinstance(array, pa.ChunkedArray):
        raise pa.ArrowCapacityError(f"{len(values)} values have more than 2 GB")
    return array


class Column:
    """How values of one type become an Arrow array and values again. None is null.

    :ivar immutable: state keeps what :meth:`read` gives as it is
    :ivar indexes: every value of the type can be the key of a dictionary as it is
    :ivar described: the type names a class that is gone or has changed since, whose values are rows
    """

    arrow: pa.DataType
    immutable = False
    indexes = False
    described = False

    def build(self, values: Sequence[Any]) -> Built:
        raise NotImplementedError

    def read(self, array: pa.Array) -> list[Any]:
        raise NotImplementedError

    def build_frozen(self, values: Sequence[Any]) -> Built:
        """The array of values as a store keeps them."""
        unfreeze = thaw_as_written if self.described else thaw
        return self.build([unfreeze(value) if value.__class__ is Frozen else value for value in values])

    def read_frozen(self, array: pa.Array) -> list[Any]:
        values = self.read(array)
        return values if self.immutable else list(map(freeze, values))

    def _cast(self, array: pa.Array) -> pa.Array:
        """A file that Spark wrote again may have a wider type."""
        return array if array.type == self.arrow else array.cast(self.arrow)


@dataclass(eq=False)
class PlainColumn(Column):
    """A type whose values Arrow takes and gives as they are, if they are of one class and within its bounds.

    :ivar fits: whether a value of the class fits
    :ivar always: Arrow itself refuses a value that does not fit
    """

    arrow: pa.DataType
    kind: type
    fits: Callable[[Any], bool] = lambda value: True
    always: bool = True
    immutable: bool = True
    indexes: bool = True

    def build(self, values: Sequence[Any]) -> Built:
        kind, fits = self.kind, self.fits
        if {kind, _NONE}.issuperset(map(type, values)) and (
            self.always or all(value is None or fits(value) for value in values)
        ):
            try:
                return Built(array_of(values, self.arrow), ())
            except pa.ArrowCapacityError:
                raise
            except (pa.ArrowException, OverflowError, UnicodeError):
                pass
        bad = {i for i, value in enumerate(values) if value is not None and not (type(value) is kind and fits(value))}
        return Built(array_of([None if i in bad else value for i, value in enumerate(values)], self.arrow), bad)

    def read(self, array: pa.Array) -> list[Any]:
        values: list[Any] = self._cast(array).to_pylist()
        return values


@dataclass(eq=False)
class ConvertedColumn(Column):
    """A type whose values Arrow keeps in another form.

    :ivar stored: what Arrow is given and asked for; cast to ``arrow`` and from it
    :ivar to_stored: the stored form, None if the value does not fit
    """

    arrow: pa.DataType
    stored: pa.DataType
    to_stored: Callable[[Any], Any]
    from_stored: Callable[[Any], Any]
    immutable: bool = False
    indexes: bool = False

    def build(self, values: Sequence[Any]) -> Built:
        to_stored = self.to_stored
        stored = [None if value is None else to_stored(value) for value in values]
        array = array_of(stored, self.stored)
        bad = {i for i, value in enumerate(stored) if value is None and values[i] is not None}
        return Built(array if self.stored == self.arrow else array.cast(self.arrow), bad)

    def read(self, array: pa.Array) -> list[Any]:
        from_stored = self.from_stored
        if array.type != self.stored:
            array = self._cast(array).cast(self.stored)
        return [None if value is None else from_stored(value) for value in array.to_pylist()]


def integers(bits: int) -> Column:
    limit = 1 << bits - 1
    return PlainColumn(pa.type_for_alias(f"int{bits}"), int, lambda value: -limit <= value < limit)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def _naive(value: dt.datetime | dt.time) -> bool:
    return value.tzinfo is None and not value.fold


def _whole_number(value: Any) -> int | None:
    return value if type(value) is int and -_TOO_LARGE < value < _TOO_LARGE else None


def _to_micros(value: Any) -> int | None:
    if type(value) is not Instant or type(value.seconds) is not int or type(value.nanos) is not int:
        return None
    if not 0 <= value.nanos < 1000 * _MICROS or value.nanos % 1000:
        return None
    micros = value.seconds * _MICROS + value.nanos // 1000
    return micros if -_LONGEST <= micros < _LONGEST else None


def _from_micros(micros: int) -> Instant:
    seconds, rest = divmod(micros, _MICROS)
    return Instant(seconds, rest * 1000)


TEXTS = PlainColumn(pa.string(), str, _encodes)
FLOATS = PlainColumn(pa.float64(), float, indexes=False)  # NaN equals nothing
BOOLEANS = PlainColumn(pa.bool_(), bool)
BYTE_STRINGS = PlainColumn(pa.binary(), bytes)
DATES = PlainColumn(pa.date32(), dt.date, immutable=False)
TIMESTAMPS = PlainColumn(pa.timestamp("us"), dt.datetime, _naive, always=False, immutable=False)
# Times of day are text: Spark refuses to read Parquet's own type for them.
TIMES = ConvertedColumn(
    pa.string(),
    pa.string(),
    lambda value: value.isoformat() if type(value) is dt.time and _naive(value) else None,
    dt.time.fromisoformat,
)
# Integers of any size are decimals of 38 digits, which is what Spark has.
BIG_INTEGERS = ConvertedColumn(pa.decimal128(38, 0), pa.decimal128(38, 0), _whole_number, int, True, True)
# Decimals are text: a decimal type has one scale for all, and 1.10 would come back as 1.1000.
BIG_DECIMALS = ConvertedColumn(
    pa.string(), pa.string(), lambda value: str(value) if type(value) is Decimal else None, Decimal
)
# Instants are microseconds in UTC, which is what Spark has; nanoseconds don't fit.
INSTANTS = ConvertedColumn(pa.timestamp("us", "UTC"), pa.int64(), _to_micros, _from_micros)


class PickledColumn(Column):
    """Anything, pickled. What a store has frozen passes as it is."""

    arrow = pa.binary()

    def build(self, values: Sequence[Any]) -> Built:
        return Built(array_of([None if value is None else pickled(value) for value in values], self.arrow), ())

    def build_frozen(self, values: Sequence[Any]) -> Built:
        return self.build(values)

    def read(self, array: pa.Array) -> list[Any]:
        return [None if data is None else loads(data) for data in self._cast(array).to_pylist()]

    def read_frozen(self, array: pa.Array) -> list[Any]:
        return [None if data is None else as_kept(data) for data in self._cast(array).to_pylist()]


def pickled(value: Any) -> bytes:
    kept = value if value.__class__ is Frozen else freeze(value)
    return kept if kept.__class__ is Frozen else dumps(kept)


def as_kept(data: bytes) -> Any:
    """What a store keeps of a pickled value. Only plain values are unpickled for it: code that passes instances on
    need not know their classes."""
    findings = check(data)
    if (data[:3] == _FRAMED and data[_FIRST] in _MUTABLE) or not findings.names <= _IMMUTABLE:
        return Frozen(data)
    value = loads(data)
    return value if is_immutable(value) else Frozen(data)
