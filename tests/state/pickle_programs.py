"""Pickles put together by hand, opcode by opcode, and a child process to load them in: some would end it."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

HEAD, STOP = b"\x80\x05", b"."
MEMOIZE, MARK, REDUCE, NEWOBJ, BUILD = b"\x94", b"(", b"R", b"\x81", b"b"


def program(*parts: bytes) -> bytes:
    return HEAD + b"".join(parts) + STOP


def plain(value: Any) -> bytes:
    """The opcodes that put plain data on the stack; they use no memo."""
    if isinstance(value, tuple):
        return MARK + b"".join(map(plain, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(plain, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(plain(key) + plain(item) for key, item in value.items()) + b"u"
    if isinstance(value, str):
        data = value.encode()
        return b"X" + len(data).to_bytes(4, "little") + data
    if isinstance(value, bytes):
        return b"B" + len(value).to_bytes(4, "little") + value
    if isinstance(value, Op):
        return value.code
    return pickle.dumps(value, 4)[2:-1]


class Op:
    """Opcodes in the place of a value."""

    def __init__(self, *parts: bytes) -> None:
        self.code = b"".join(parts)


def name(module: str, qualname: str) -> bytes:
    return plain(module) + plain(qualname) + b"\x93"


def call(module: str, qualname: str, *arguments: Any) -> bytes:
    return name(module, qualname) + plain(arguments) + REDUCE


def new(module: str, qualname: str, *arguments: Any) -> bytes:
    return name(module, qualname) + plain(arguments) + NEWOBJ


def build(state: Any) -> bytes:
    return plain(state) + BUILD


def in_child(function: Callable[[], str]) -> str:
    """What a function gives in a process of its own, or how that ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, function().encode()[:60_000])
        except BaseException as error:
            os.write(writing, f"raised {type(error).__name__}: {error}".encode()[:60_000])
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    _, status = os.waitpid(child, 0)
    return f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else said
