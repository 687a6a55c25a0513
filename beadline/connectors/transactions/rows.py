"""Rows as they are staged: pickles of some thousand rows each, with their lengths before them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from beadline.connectors.files.pieces import Piece, content_of
from beadline.state.codec import dumps, loads_rows

_LENGTH = struct.Struct(">I")
_ROWS = 5000


def packed(rows: list[Any]) -> list[bytes]:
    """Frames of rows."""
    frames = []
    for first in range(0, len(rows), _ROWS):
        data = dumps(rows[first : first + _ROWS])
        frames += [_LENGTH.pack(len(data)), data]
    return frames


def unpacked(pieces: list[Piece]) -> Iterator[list[Any]]:
    """The rows of all pieces in order, a frame at a time.

    :raises OSError: a staged file is missing, or was cut short
    """
    buffered = b""
    for chunk in content_of(pieces):
        buffered = buffered + chunk if buffered else chunk
        start = 0
        while len(buffered) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffered, start)
            end = start + _LENGTH.size + length
            if end > len(buffered):
                break
            yield loads_rows(buffered[start + _LENGTH.size : end])
            start = end
        buffered = buffered[start:]
    if buffered:
        raise OSError(f"staged rows are cut short: {len(buffered)} bytes are left of the last frame")
