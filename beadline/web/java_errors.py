"""Errors in the form in which Flink's clients expect them: as an object of Java's serialization.

When an asynchronous operation has failed, Flink's REST answer has, besides readable texts, the exception itself in
``serialized-throwable``, and Flink's clients read nothing else. The object is a small one: a class of Flink's with
three fields, below Java's ``Exception`` and ``Throwable``. So it is written here by hand, after the "Java Object
Serialization Specification", chapter 6.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _CLASS, _OBJECT, _STRING, _LONG_STRING, _END = (bytes([code]) for code in (0x70, 0x72, 0x73, 0x74, 0x7C, 0x78))
_SERIALIZABLE, _WITH_WRITE_METHOD = 0x02, 0x03

# Each class with its serialVersionUID, and the names and types of its fields in the order that the specification asks.
_THROWABLE = ("java.lang.Throwable", 0xD5C635273977B8CB, _WITH_WRITE_METHOD)
_THROWABLE_FIELDS = (
    ("cause", "Ljava/lang/Throwable;"),
    ("detailMessage", "Ljava/lang/String;"),
    ("stackTrace", "[Ljava/lang/StackTraceElement;"),
    ("suppressedExceptions", "Ljava/util/List;"),
)
_EXCEPTION = ("java.lang.Exception", 0xD0FD1F3E1A3B1CC4, _SERIALIZABLE)
_SERIALIZED = ("org.apache.flink.util.SerializedThrowable", 0x65169DF51FA713F3, _SERIALIZABLE)
_SERIALIZED_FIELDS = (
    ("fullStringifiedStackTrace", "Ljava/lang/String;"),
    ("originalErrorClassName", "Ljava/lang/String;"),
    ("serializedException", "[B"),
)


def failure_cause(name: str, message: str, trace: str) -> dict[str, str]:
    """The ``failure-cause`` of an answer: the class of an error, its message, and all that is known as text."""
    return {
        "class": name,
        "stack-trace": trace,
        "serialized-throwable": base64.b64encode(_serialized(name, message, trace)).decode(),
    }


def _serialized(name: str, message: str, trace: str) -> bytes:
    description = (
        _class(*_SERIALIZED, _SERIALIZED_FIELDS) + _class(*_EXCEPTION, ()) + _class(*_THROWABLE, _THROWABLE_FIELDS)
    )
    throwable = _NULL + _string(message) + _NULL + _NULL + _END  # no cause, no stack of Java's, nothing suppressed
    return _MAGIC + _OBJECT + description + _NULL + throwable + _string(trace) + _string(name) + _NULL


def _class(name: str, uid: int, flags: int, fields: Sequence[tuple[str, str]]) -> bytes:
    written = b"".join(kind[:1].encode() + _text(field) + _string(kind) for field, kind in fields)
    return _CLASS + _text(name) + struct.pack(">QBH", uid, flags, len(fields)) + written + _END


def _text(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _string(text: str) -> bytes:
    data = _modified_utf8(text)
    if len(data) < 1 << 16:
        return _STRING + struct.pack(">H", len(data)) + data
    return _LONG_STRING + struct.pack(">Q", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Java's UTF-8: NUL takes two bytes, and what is beyond 16 bits is written as two halves."""
    halves = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(halves) // 2}H", halves)
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
