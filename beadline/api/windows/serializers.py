"""How windows are written: big-endian integers of fixed width, so that bytes sort and compare like windows."""

from __future__ import annotations

import struct
from io import BytesIO

from beadline.api.windows.window import CountWindow, GlobalWindow, TimeWindow
from beadline.common.serializer import TypeSerializer
from beadline.errors import SerializationError

_TWO_LONGS = struct.Struct(">qq")
_LONG = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes a time window as 16 bytes: start and end."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(_read(stream, _TWO_LONGS.size, "TimeWindow")))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes a count window as 8 bytes: its number."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(_read(stream, _LONG.size, "CountWindow")))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes the global window as one zero byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        _read(stream, 1, "GlobalWindow")
        return GlobalWindow.get()


def _read(stream: BytesIO, size: int, what: str) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise SerializationError(f"A {what} takes {size} bytes, but only {len(data)} were left to read.")
    return data
