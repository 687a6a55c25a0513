"""Which subtask owns a key.

A key is hashed over a canonical, type-tagged encoding: equal keys encode equally in every process and every Python
version. A pickle would not do (equal tuples may pickle differently), nor would ``hash()`` (salted per process).
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from typing import Any

import xxhash

from beadline.common import Row
from beadline.errors import ConfigurationError, KeyEncodingError

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
EQUAL_THEMSELVES = frozenset({str, int, bool, bytes, type(None)})
IMMUTABLE_KEYS = frozenset({str, int, float, bool, bytes, type(None), tuple, Decimal, uuid.UUID, dt.date, dt.datetime})
_LOWER_BOUND_DEFAULT = 128

hash_encoded = xxhash.xxh3_64_intdigest
_NAN = b"f" + struct.pack(">d", float("nan"))
# Normalising in the thread's own context would round.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def encode_key(key: Any) -> bytes:
    """The canonical encoding of a key; raises :class:`KeyEncodingError` for types that have none."""
    if type(key) is str:
        return b"s" + key.encode("utf-8", "surrogatepass")
    if type(key) is int:
        return b"i%x" % key
    return _encode_slow(key)


def _encode_slow(key: Any) -> bytes:
    if key is None:
        return b"n"
    if isinstance(key, int):  # bool and IntEnum equal their int, so they encode alike
        return encode_key(int(key))
    if isinstance(key, str):
        return b"s" + str.__str__(key).encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, float):
        # There are many NaNs of one meaning: inf - inf has another sign than float("nan").
        return encode_key(int(key)) if key.is_integer() else _NAN if key != key else b"f" + struct.pack(">d", key)
    if isinstance(key, tuple):
        return b"t" + b"".join(_framed(encode_key(item)) for item in key)
    if isinstance(key, Row):
        return _encode_row(key)
    if isinstance(key, Decimal):
        return _encode_decimal(key)
    if isinstance(key, Enum):
        return b"e" + f"{type(key).__qualname__}.{key.name}".encode()
    if isinstance(key, dt.datetime):
        if key.tzinfo is None:
            return b"D" + key.isoformat().encode()
        return b"Z" + key.astimezone(dt.timezone.utc).isoformat().encode()
    if isinstance(key, dt.date):
        return b"date" + key.isoformat().encode()
    if isinstance(key, dt.time):
        return _encode_time(key)
    if isinstance(key, dt.timedelta):
        return b"T" + f"{key.days},{key.seconds},{key.microseconds}".encode()
    if isinstance(key, uuid.UUID):
        return b"u" + key.bytes
    if isinstance(key, list | dict | set | frozenset | bytearray):
        return _encode_container(key)
    if dataclasses.is_dataclass(key) and not isinstance(key, type):
        if type(key).__eq__ is object.__eq__:
            raise KeyEncodingError(
                f"a key of type {type(key).__name__} equals nothing but itself, so no second record can have it: "
                f"{_shorten(key)}. Make it a dataclass with eq=True."
            )
        fields = (getattr(key, f.name) for f in dataclasses.fields(key))
        return b"c" + _framed(type(key).__qualname__.encode()) + b"".join(_framed(encode_key(v)) for v in fields)
    raise KeyEncodingError(
        f"a key of type {type(key).__name__} has no canonical encoding: {_shorten(key)}. "
        "Use a str, bytes, int, float, bool, None, Decimal, date, time, UUID, enum, or a tuple, list, dict, set, Row "
        "or dataclass of these."
    )


def _encode_container(key: Any) -> bytes:
    """Keys that can't be hashed differ from keys that can, although Python calls some pairs equal, such as a set and a
    frozenset: one of them is boxed, the other is not. They are different keys in PyFlink too."""
    if isinstance(key, list):
        return b"l" + b"".join(_framed(encode_key(item)) for item in key)
    if isinstance(key, dict):  # equal whatever the order of the items
        pairs = sorted((encode_key(name), encode_key(value)) for name, value in key.items())
        return b"m" + b"".join(_framed(part) for pair in pairs for part in pair)
    if isinstance(key, bytearray):
        return b"a" + bytes(key)
    return (b"S" if isinstance(key, set) else b"F") + b"".join(map(_framed, sorted(map(encode_key, key))))


def _encode_row(key: Row) -> bytes:
    names = getattr(key, "_fields", None)
    kind = key.get_row_kind().name.encode()
    if not names:
        return b"r" + _framed(kind) + b"".join(_framed(encode_key(item)) for item in key)
    # Rows are equal by name, whatever the order of their fields.
    pairs = sorted(zip(names, key, strict=True), key=lambda pair: pair[0])
    return b"R" + _framed(kind) + b"".join(_framed(encode_key(part)) for pair in pairs for part in pair)


def _encode_time(key: dt.time) -> bytes:
    offset = key.utcoffset()
    if offset is None:
        return b"time" + key.isoformat().encode()
    # Equal if they are the same time in UTC, which may lie before or after the day.
    naive = dt.timedelta(hours=key.hour, minutes=key.minute, seconds=key.second, microseconds=key.microsecond)
    return b"utc" + str((naive - offset) // dt.timedelta(microseconds=1)).encode()


def _encode_decimal(key: Decimal) -> bytes:
    if key.is_infinite():
        return encode_key(float(key))
    if key.is_nan():
        return b"d" + str(key).encode()
    if key == key.to_integral_value():
        return encode_key(int(key))
    as_float = float(key)
    if Decimal(as_float) == key:  # Decimal('0.5') == 0.5 in Python, so both are one key
        return b"f" + struct.pack(">d", as_float)
    return b"d" + str(key.normalize(_EXACT)).encode()


def _framed(encoded: bytes) -> bytes:
    return len(encoded).to_bytes(4, "big") + encoded


def _shorten(value: Any, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


def key_group_of(key: Any, max_parallelism: int) -> int:
    return hash_encoded(encode_key(key)) % max_parallelism


def subtask_of_key_group(key_group: int, parallelism: int, max_parallelism: int) -> int:
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    start = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(start, end)


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default: one and a half times the parallelism, rounded up to a power of two, at least 128."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(wanted - 1, 0).bit_length()
    return min(max(power, _LOWER_BOUND_DEFAULT), UPPER_BOUND_MAX_PARALLELISM)


def check_parallelism(parallelism: int, max_parallelism: int, operator: str) -> None:
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ConfigurationError(
            f"operator '{operator}': max parallelism is {max_parallelism}, "
            f"it must lie between 1 and {UPPER_BOUND_MAX_PARALLELISM}"
        )
    if parallelism > max_parallelism:
        raise ConfigurationError(
            f"operator '{operator}': parallelism {parallelism} is higher than its max parallelism {max_parallelism}. "
            "Lower the parallelism or raise set_max_parallelism()."
        )


class BoxedKey:
    """Stands in for a key that has a canonical encoding but can't be hashed (a list, a plain dataclass)."""

    __slots__ = ("encoded", "key")

    def __init__(self, key: Any, encoded: bytes) -> None:
        self.key = key
        self.encoded = encoded

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoxedKey) and self.encoded == other.encoded

    def copied(self) -> Any:
        """The key for user code, which may change it."""
        return copy.deepcopy(self.key)

    def __reduce__(self) -> tuple[type[BoxedKey], tuple[Any, bytes]]:
        return BoxedKey, (self.key, self.encoded)


def _can_index(key: Any) -> bool:
    """Whether a copy of the key finds what the key put into a dictionary. NaN does not equal itself."""
    if isinstance(key, tuple | frozenset):
        return all(map(_can_index, key))
    try:
        hash(key)
    except TypeError:
        return False
    return not isinstance(key, float | Decimal) or key == key


def indexed(key: Any) -> Any:
    """The key as state indexes it: itself, or boxed."""
    return key if _can_index(key) else BoxedKey(key, encode_key(key))


def map_indexed(key: Any) -> Any:
    """A map's key as the map indexes it: itself, or boxed if NaN is in it.

    All NaNs are one key, as in Java's maps. Keys that are equal in Python are one key too, as everywhere in a Python
    program: ``0.0`` and ``-0.0``, ``1`` and ``1.0``. Java tells the two zeros apart. In PyFlink it depends on whether
    the entry is still in the cache in front of its Java state; here it is the same in every backend and after every
    restore.
    """
    if key.__class__ in EQUAL_THEMSELVES or not _holds_nan(key):
        return key
    try:
        return BoxedKey(key, encode_key(key))
    except KeyEncodingError:
        return key


def _holds_nan(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(map(_holds_nan, key))
    return key != key if isinstance(key, float) else isinstance(key, Decimal) and key.is_nan()


def unboxed(key: Any) -> Any:
    """The key as user code knows it."""
    return key.key if key.__class__ is BoxedKey else key


def encode_indexed(key: Any) -> bytes:
    return key.encoded if key.__class__ is BoxedKey else encode_key(key)


def encode_slot(slot: Any, namespaced: bool) -> bytes:
    return encode_indexed(slot[0] if namespaced else slot)


class KeyRouter:
    """Finds the subtask of a key. It remembers keys: records repeat them far more than they bring new ones."""

    _REMEMBER = 1 << 18

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._seen: dict[Any, int] = {}
        self.lookup: Callable[[Any], int | None] = self._seen.get

    def route(self, key: Any) -> tuple[Any, int]:
        """The key as state will index it, and its subtask. Call it for keys that :attr:`lookup` does not know."""
        encoded = encode_key(key)
        group = hash_encoded(encoded) % self._max_parallelism
        subtask = group * self._parallelism // self._max_parallelism
        if not _can_index(key):
            # The key must stay as it is when user code changes the record it is part of.
            return BoxedKey(copy.deepcopy(key), encoded), subtask
        if len(self._seen) >= self._REMEMBER:
            self._seen.clear()
        if key.__class__ not in IMMUTABLE_KEYS:
            key = copy.copy(key)
        self._seen[key] = subtask
        return key, subtask
