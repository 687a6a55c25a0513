"""Lines from a socket: a source that nobody can read again.

A thread of the driver reads the socket. A step gets its lines in its split, so a step that is run again gives the same.
What the driver still has is given again after a failure; what was lost with the driver is lost: at most once.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.connectors.source import BATCH, Position, StepSource, Unreadable
from beadline.errors import ConfigurationError, InputError

_LOG = logging.getLogger("beadline")

_CHUNK = 1 << 16
# The thread stops reading when so much waits for a step: the sender then feels it.
_MOST_WAITING = 64 << 20
# Lines that were handed out are kept for a restart of the job, until a checkpoint holds them or there are too many.
_MOST_KEPT = 64 << 20
# What travels to a task in a split.
_MOST_IN_STEP = 16 << 20
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Peer:
    """Where lines come from, and how they are told apart."""

    host: str
    port: int
    delimiter: bytes = b"\n"
    max_retries: int = 0
    retry_seconds: float = 0.5

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def check(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigurationError(f"SocketSource: a port is a number from 1 to 65535, got {self.port}")
        if not self.delimiter:
            raise ConfigurationError("SocketSource: the delimiter of lines can't be empty")
        if self.max_retries < -1 or self.retry_seconds < 0:
            raise ConfigurationError(
                f"SocketSource: max_retries is -1 (no limit) or more and the delay is not negative, got "
                f"{self.max_retries} and {self.retry_seconds} s"
            )


class Connection:
    """Reads lines in a thread of its own. Lines have numbers, which go on when the connection is made again.

    :ivar ended: the peer has closed, and there are no retries left
    """

    def __init__(self, peer: Peer, first: int = 0) -> None:
        self._peer = peer
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._first = first  # the number of the first line that is still there
        self._given = first  # up to which number lines were handed out
        self._waiting_bytes = self._kept_bytes = 0
        self._closed = False
        self._problem: OSError | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.ended = False

    # -- for the driver's thread

    def ensure(self) -> None:
        """Connect, unless that is done. Raises if nobody answers; if the connection broke, it raises once, so that the
        job fails and the restart strategy decides."""
        with self._changed:
            problem, self._problem = self._problem, None
        if problem is not None:
            self._thread = None
            raise InputError(
                f"the connection to {self._peer} broke: {problem}. What the peer sent meanwhile is lost; with "
                "SocketSource(…, max_retries=-1) the source connects again by itself"
            ) from problem
        if self._thread is None and not self.ended:
            self._socket = self._connect()
            self._thread = threading.Thread(target=self._read, name=f"beadline-socket-{self._peer}", daemon=True)
            self._thread.start()

    def take(self, start: int, most: int) -> tuple[int, list[bytes]]:
        """The number of the first line from ``start`` on that is still there, and the lines from there."""
        with self._changed:
            first = max(start, self._first)
            if first > start:
                _LOG.warning("%d lines of %s are lost: they can't be read again", first - start, self._peer)
            end, size = first - self._first, 0
            while end < len(self._lines) and end - (first - self._first) < most and size < _MOST_IN_STEP:
                size += len(self._lines[end])
                end += 1
            lines = self._lines[first - self._first : end]
            self._hand_out(first + len(lines))
            return first, lines

    def _hand_out(self, end: int) -> None:
        if end <= self._given:
            return
        size = sum(map(len, self._lines[self._given - self._first : end - self._first]))
        self._given = end
        self._waiting_bytes -= size
        self._kept_bytes += size
        dropped = 0
        while self._kept_bytes > _MOST_KEPT and self._first + dropped < end:
            self._kept_bytes -= len(self._lines[dropped])
            dropped += 1
        self._drop(dropped)

    def forget(self, end: int) -> None:
        """Lines before that number are not needed any more."""
        with self._changed:
            count = max(0, min(end, self._given) - self._first)
            self._kept_bytes -= sum(map(len, self._lines[:count]))
            self._drop(count)

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._first += count
        self._changed.notify_all()

    def is_behind(self, number: int) -> bool:
        """Whether no line will ever have that number."""
        with self._changed:
            return self.ended and number >= self._first + len(self._lines)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        _close(self._socket)

    # -- in the thread

    def _read(self) -> None:
        try:
            retries = 0
            while not self._closed:
                if self._socket is not None and self._lines_of(self._socket):
                    retries = 0
                if 0 <= self._peer.max_retries <= retries:
                    break
                retries += 1
                self._nap()
                self._socket = self._reconnected()
        except OSError as error:
            with self._changed:
                if not self._closed:
                    self._problem = error
                    return
        self.ended = True

    def _reconnected(self) -> socket.socket | None:
        try:
            return self._connect()
        except InputError as error:
            _LOG.warning("%s; trying again in %s s", error, self._peer.retry_seconds)
            return None

    def _lines_of(self, connection: socket.socket) -> bool:
        """Read until the peer closes; gives whether there was anything. What comes after the last delimiter is a line
        too."""
        rest = b""
        anything = False
        try:
            while chunk := connection.recv(_CHUNK):
                anything = True
                *lines, rest = (rest + chunk).split(self._peer.delimiter)
                self._add(lines)
        except OSError as error:
            if self._closed:
                return anything
            if self._peer.max_retries == 0:
                raise
            _LOG.warning("the connection to %s broke: %s", self._peer, error)
        finally:
            _close(connection)
        if rest:
            self._add([rest])
        return anything

    def _add(self, lines: list[bytes]) -> None:
        with self._changed:
            self._lines += lines
            self._waiting_bytes += sum(map(len, lines))
            self._changed.wait_for(lambda: self._closed or self._waiting_bytes < _MOST_WAITING)

    def _nap(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, self._peer.retry_seconds)

    def _connect(self) -> socket.socket:
        try:
            made = socket.create_connection((self._peer.host, self._peer.port), timeout=_CONNECT_SECONDS)
        except OSError as error:
            raise InputError(
                f"can't connect to {self._peer}: {error}. Is the server running, and can the driver reach it?"
            ) from error
        made.settimeout(None)
        return made


class SocketLines(StepSource):
    """Lines of text from a peer, until it closes."""

    single = True

    def __init__(self, peer: Peer, encoding: str = "UTF-8") -> None:
        peer.check()
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise ConfigurationError(f"SocketSource: Python knows no encoding {encoding!r}") from error
        self._peer = peer
        self._encoding = encoding
        self._connection: Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}  # workers need none

    def guarantee(self) -> str:
        return "at-most-once"

    # -- on the driver

    def initial(self) -> Position:
        return {"line": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        if self._connection is None:
            self._connection = Connection(self._peer, start["line"])
        self._connection.ensure()
        first, lines = self._connection.take(start["line"], max(rows, 1))
        if not lines:
            return start, []
        return {"line": first + len(lines)}, [(first, lines)]

    def finished(self, position: Position) -> bool:
        return self._connection is not None and self._connection.is_behind(position["line"])

    def poll_interval(self) -> float:
        return 0.05

    def commit(self, position: Position) -> None:
        if self._connection is not None:
            self._connection.forget(position["line"])

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[Any]:
        first, lines = split
        carriage = self._peer.delimiter == b"\n"
        batch: list[str] = []
        for number, line in enumerate(lines, first):
            text = line.removesuffix(b"\r") if carriage else line
            try:
                batch.append(text.decode(self._encoding))
            except UnicodeDecodeError as error:
                if batch:
                    yield batch
                    batch = []
                yield Unreadable(
                    f"line {number} of {self._peer}",
                    text,
                    InputError(
                        f"the line is not {self._encoding}: {error.reason} at byte {error.start}. Name another "
                        "encoding where the source is made, or let beadline.poison.action=skip leave such lines out"
                    ),
                )
            if len(batch) >= BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _close(connection: socket.socket | None) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
