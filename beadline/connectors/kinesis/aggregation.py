"""Records that Amazon's producer library has packed into one.

A packed record is a magic number, a message of protocol buffers, and the MD5 of that message. The message holds a table
of partition keys (field 1) and the records (field 3), of which field 3 is the data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

_MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST = 16
_RECORDS = 3
_DATA = 3


def unpacked(data: bytes) -> list[bytes]:
    """The records in this one, in their order: itself if it is not packed."""
    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + _DIGEST:
        return [data]
    message, digest = data[len(_MAGIC) : -_DIGEST], data[-_DIGEST:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return [data]  # the number is there by accident
    records = [value for field, value in _fields(message) if field == _RECORDS]
    return [next((value for field, value in _fields(record) if field == _DATA), b"") for record in records]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that hold bytes."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            _, at = _number(message, at)
        elif wire_type == 2:
            length, at = _number(message, at)
            yield field, message[at : at + length]
            at += length
        else:
            at += 8 if wire_type == 1 else 4


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
