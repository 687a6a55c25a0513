"""Row values. What a table keeps is immutable plain data or :class:`Frozen`; the first is marshalled, which is several
times faster than pickling and fits a file that never leaves the machine and the Python it was written by.

The first byte tells them apart: no marshalled value begins with 0 (a frozen one), or 1 (the slot precedes the value,
because it can't be read back from the row's key).
"""

from __future__ import annotations

import marshal
from typing import Any

from beadline.state.codec import Frozen, dumps, loads

_FROZEN, _OWNED, _LIST = b"\x00", b"\x01", b"\x02"

Item = Any


def pack(value: Any) -> bytes:
    """A value as a table keeps it."""
    return _FROZEN + value if value.__class__ is Frozen else marshal.dumps(value)


def unpack(data: bytes) -> Any:
    first = data[0]
    if first > 1:
        return marshal.loads(data)
    if first == 0:
        return Frozen(data[1:])
    return unpack(split_owner(data)[1])


def owned(owner: Any, data: bytes) -> bytes:
    """A value with the owner of its row."""
    name = dumps(owner)
    return _OWNED + len(name).to_bytes(4, "big") + name + data


def is_owned(data: bytes) -> bool:
    return data[:1] == _OWNED


def split_owner(data: bytes) -> tuple[Any, bytes]:
    """What :func:`owned` was given."""
    end = 5 + int.from_bytes(data[1:5], "big")
    return loads(data[5:end]), data[end:]


# -- lists: packed items, one pack after the other, so that appending is concatenating bytes


def pack_items(items: list[Item]) -> bytes:
    frozen = tuple(i for i, item in enumerate(items) if item.__class__ is Frozen)
    data = marshal.dumps((items, frozen))
    return len(data).to_bytes(4, "big") + data


def unpack_items(data: bytes) -> list[Item]:
    items: list[Item] = []
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
