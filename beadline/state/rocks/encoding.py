"""How entries become rows.

A row's key is table, key group, key, and what follows (a window, a map key, a time). Rows of a table sort by key group
and encoded key, as merged segments do, so that a restore writes them in order. Where something follows the key, the
key's zero bytes are escaped and it ends with a mark: no key is the beginning of another.

A row's value is immutable plain data or :class:`Frozen`; the first is marshalled, which is several times faster than
pickling and fits a file that never leaves the machine and the Python it was written by. The first byte tells them
apart: no marshalled value begins with 0 (a frozen one), or 1 (the slot precedes the value, because it can't be read
back from the row's key).
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

from beadline.errors import KeyEncodingError
from beadline.state.codec import Frozen, dumps, loads_own
from beadline.state.key_groups import encode_indexed, encode_key, hash_encoded

Encode = Callable[[Any], bytes]

_END = b"\x00\x01"
_PLAIN = frozenset({str, int, bytes, type(None)})
_TIME_BIAS = 1 << 63
_HALF = 1 << 31
HEAD = 2
_HEAD_AND_GROUP = HEAD + 2
_FROZEN, _OWNED, _LIST = b"\x00", b"\x01", b"\x02"

#: Stands for all map keys of a slot that have no canonical encoding, which would begin with a letter.
OPAQUE = b"\xff"


def head_of(table: int) -> bytes:
    return table.to_bytes(HEAD, "big")


def encode_namespace(namespace: Any) -> bytes:
    """The encoding of a window. Windows of the user's own classes are encoded by their fields."""
    try:
        return encode_key(namespace)
    except KeyEncodingError:
        pass
    state = namespace.__reduce_ex__(2)[2]
    plain, slots = state if isinstance(state, tuple) else (state, None)
    fields = sorted({**(plain or {}), **(slots or {})}.items())
    return b"w" + encode_key((type(namespace).__qualname__, tuple(fields)))


def escaped(encoded: bytes) -> bytes:
    """Escaped, so that something may follow without disturbing the order."""
    return encoded.replace(b"\x00", b"\x00\xff") + _END


def split_escaped(data: bytes) -> tuple[bytes, bytes]:
    """What :func:`escaped` was given, and what follows."""
    encoded, _, rest = data.partition(_END)
    return encoded.replace(b"\x00\xff", b"\x00"), rest


# -- keys that can be read back from their encoding


def is_plain(key: Any) -> bool:
    """Whether :func:`decode_key` gives the key back, type and all. Other keys are kept with the value."""
    kind = key.__class__
    if kind is tuple:
        for item in key:
            if not is_plain(item):
                return False
        return True
    return kind in _PLAIN


def decode_key(encoded: bytes) -> Any:
    tag = encoded[:1]
    if tag == b"s":
        return encoded[1:].decode("utf-8", "surrogatepass")
    if tag == b"i":
        return int(encoded[1:], 16)
    if tag == b"b":
        return encoded[1:]
    if tag == b"n":
        return None
    assert tag == b"t", encoded
    items, at = [], 1
    while at < len(encoded):
        end = at + 4 + int.from_bytes(encoded[at : at + 4], "big")
        items.append(decode_key(encoded[at + 4 : end]))
        at = end
    return tuple(items)


# -- map keys


def encode_map_key(key: Any) -> bytes | None:
    """An encoding that sorts whole numbers by value; None if the key has no canonical encoding."""
    try:
        encoded = encode_indexed(key)
    except KeyEncodingError:
        return None
    return _ordered_number(int(encoded[1:], 16)) if encoded[:1] == b"i" else encoded


def decode_map_key(encoded: bytes) -> Any:
    return _number(encoded) if encoded[:1] == b"i" else decode_key(encoded)


def _ordered_number(number: int) -> bytes:
    raw = abs(number).to_bytes((abs(number).bit_length() + 7) // 8, "big")
    if number >= 0:
        return b"i" + (_HALF + len(raw)).to_bytes(4, "big") + raw
    return b"i" + (_HALF - len(raw)).to_bytes(4, "big") + bytes(255 - byte for byte in raw)


def _number(encoded: bytes) -> int:
    raw = encoded[5:]
    if int.from_bytes(encoded[1:5], "big") >= _HALF:
        return int.from_bytes(raw, "big")
    return -int.from_bytes(bytes(255 - byte for byte in raw), "big")


# -- the rows of a table


class RowKeys:
    """The row keys of one table.

    :ivar of_slot: the row key of a slot; for maps, what the row keys of its entries begin with
    :ivar prefixes: what row keys begin with, by key group
    """

    def __init__(self, table: int, max_parallelism: int, namespaced: bool, followed: bool = False) -> None:
        self.head = head_of(table)
        self.max_parallelism = max_parallelism
        self.namespaced = namespaced
        self._followed = followed
        self.prefixes = [self.head + group.to_bytes(2, "big") for group in range(max_parallelism)]
        self.of_slot: Encode = self._make_encode()

    def _make_encode(self) -> Encode:
        prefixes, maximum, followed = self.prefixes, self.max_parallelism, self._followed

        def of_key(key: Any) -> bytes:
            encoded = encode_indexed(key)
            return prefixes[hash_encoded(encoded) % maximum] + (escaped(encoded) if followed else encoded)

        def of_key_and_namespace(slot: Any) -> bytes:
            encoded, namespace = encode_indexed(slot[0]), encode_namespace(slot[1])
            group = prefixes[hash_encoded(encoded) % maximum]
            return group + escaped(encoded) + (escaped(namespace) if followed else namespace)

        return of_key_and_namespace if self.namespaced else of_key

    def slot_part(self, row: bytes) -> tuple[bytes, bytes]:
        """What all rows of a row's slot begin with, and what follows it."""
        if not self._followed:
            return row, b""
        end = row.index(_END, _HEAD_AND_GROUP) + len(_END)
        if self.namespaced:
            end = row.index(_END, end) + len(_END)
        return row[:end], row[end:]

    def slot_from(self, row: bytes) -> Any:
        part = row[_HEAD_AND_GROUP:]
        if not self.namespaced:
            return decode_key(split_escaped(part)[0] if self._followed else part)
        key, rest = split_escaped(part)
        return decode_key(key), decode_key(split_escaped(rest)[0] if self._followed else rest)


class TimerKeys:
    """The row keys of one table of timers: by time, then by key and window."""

    def __init__(self, table: int, namespaced: bool) -> None:
        self.head = head_of(table)
        self.namespaced = namespaced

    def at(self, timestamp: int) -> bytes:
        return self.head + (timestamp + _TIME_BIAS).to_bytes(8, "big")

    def of(self, timestamp: int, slot: Any) -> bytes:
        if not self.namespaced:
            return self.at(timestamp) + escaped(encode_indexed(slot))
        return self.at(timestamp) + escaped(encode_indexed(slot[0])) + encode_namespace(slot[1])

    def timestamp_of(self, row: bytes) -> int:
        return int.from_bytes(row[HEAD : HEAD + 8], "big") - _TIME_BIAS

    def slot_from(self, row: bytes) -> Any:
        """The slot of a row whose slot is plain."""
        key, rest = split_escaped(row[HEAD + 8 :])
        return (decode_key(key), decode_key(rest)) if self.namespaced else decode_key(key)


# -- the values of rows


def pack(value: Any) -> bytes:
    return _FROZEN + value if value.__class__ is Frozen else marshal.dumps(value)


def unpack(data: bytes) -> Any:
    first = data[0]
    if first > 1:
        return marshal.loads(data)
    if first == 0:
        return Frozen(data[1:])
    return unpack(split_owner(data)[1])


def owned(owner: Any, data: bytes) -> bytes:
    name = dumps(owner)
    return _OWNED + len(name).to_bytes(4, "big") + name + data


def is_owned(data: bytes) -> bool:
    return data[:1] == _OWNED


def split_owner(data: bytes) -> tuple[Any, bytes]:
    """What :func:`owned` was given."""
    end = 5 + int.from_bytes(data[1:5], "big")
    return loads_own(data[5:end]), data[end:]


# Lists are packed items, one pack after the other, so that appending is concatenating bytes.


def pack_items(items: list[Any]) -> bytes:
    frozen = tuple(i for i, item in enumerate(items) if item.__class__ is Frozen)
    data = marshal.dumps((items, frozen))
    return len(data).to_bytes(4, "big") + data


def unpack_items(data: bytes) -> list[Any]:
    items: list[Any] = []
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        packed, frozen = marshal.loads(data[at + 4 : end])
        for i in frozen:
            packed[i] = Frozen(packed[i])
        items += packed
        at = end
    return items


class ListRow:
    """The row of a list: the end of it, and how many rows hold what came before."""

    __slots__ = ("chunks", "owner", "tail")

    def __init__(self, data: bytes | None) -> None:
        self.owner = b""
        if data is None:
            self.chunks, self.tail = 0, b""
            return
        if is_owned(data):
            end = 5 + int.from_bytes(data[1:5], "big")
            self.owner, data = data[:end], data[end:]
        self.chunks, self.tail = int.from_bytes(data[1:5], "big"), data[5:]

    def pack(self) -> bytes:
        return self.owner + _LIST + self.chunks.to_bytes(4, "big") + self.tail
