"""Frames over a socket, between the driver and a member or between two members.

Sending never blocks: two members that send to each other would wait for ever. What the socket does not take at once
waits in a queue, which :meth:`Link.flush` empties while the owner of the link waits for something or reads.

Plain sockets, because nothing else does that and costs little: a round trip of a kilobyte takes 17 µs on one machine
(TCP 28), 41 with ZeroMQ and 216 with Arrow Flight, whose server calls back into Python from threads of its own and
takes milliseconds now and then. ``multiprocessing.connection`` is as fast, but its sends block, and so does its
handshake.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections import deque

_LENGTH = struct.Struct("!Q")
_READ = 1 << 18
# A machine that is cut off is noticed after about this many seconds.
_SILENCE = 30


class LinkLost(Exception):
    """The other end has closed the link, or can't be reached."""


class Link:
    """One end of a connection whose two ends know each other.

    :ivar unacknowledged: bytes of rows that were sent, and that the other end has not said to have read
    :ivar uncredited: bytes of rows that were read, and that the other end was not told of
    """

    def __init__(self, connection: socket.socket, name: str) -> None:
        connection.setblocking(False)
        self._socket = connection
        self.name = name
        self._sending: deque[memoryview] = deque()
        self._received = bytearray()
        self._watcher: selectors.BaseSelector | None = None
        self.unacknowledged = 0
        self.uncredited = 0

    def __repr__(self) -> str:
        return f"<Link to {self.name}: {len(self._sending)} pieces to send, {len(self._received)} bytes of a frame>"

    def fileno(self) -> int:
        return self._socket.fileno()

    def watch(self, selector: selectors.BaseSelector) -> None:
        """From now on the selector tells when there is something to read, or room for what waits."""
        self._watcher = selector
        selector.register(self, self._interest())

    def _interest(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._sending else 0)

    def send(self, frame: bytes) -> None:
        """Send a frame, or as much of it as the socket takes; the rest waits."""
        waited = bool(self._sending)
        self._sending.append(memoryview(_LENGTH.pack(len(frame)) + frame if len(frame) < _READ else frame))
        if len(frame) >= _READ:
            self._sending.insert(len(self._sending) - 1, memoryview(_LENGTH.pack(len(frame))))
        if not waited:
            self.flush()

    def flush(self) -> None:
        """Send of what waits as much as the socket takes."""
        waiting = bool(self._sending)
        try:
            while self._sending:
                piece = self._sending[0]
                sent = self._socket.send(piece)
                if sent < len(piece):
                    self._sending[0] = piece[sent:]
                else:
                    self._sending.popleft()
        except BlockingIOError:
            pass
        except OSError as error:
            raise LinkLost(f"{self.name} can't be reached: {error}") from error
        if self._watcher is not None and (self._sending or waiting):
            self._watcher.modify(self, self._interest())

    def receive(self) -> list[bytes]:
        """The frames that have come completely."""
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LinkLost(f"the connection to {self.name} broke: {error}") from error
        if not data:
            raise LinkLost(f"{self.name} has closed the connection")
        received = self._received
        received += data
        frames, at = [], 0
        while len(received) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, at)
            end = at + _LENGTH.size + length
            if len(received) < end:
                break
            frames.append(bytes(memoryview(received)[at + _LENGTH.size : end]))
            at = end
        if at:
            del received[:at]
        return frames

    def say_goodbye(self) -> None:
        """Nothing more will be sent: the other end hears that the link is closed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._watcher is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._watcher.unregister(self)
            self._watcher = None
        with contextlib.suppress(OSError):
            self._socket.close()


# -- sockets


#: Where somebody listens: the path of a Unix socket, or host and port.
Address = str | tuple[str, int]


def listen(address: Address) -> socket.socket:
    """A socket that listens at a path, or on a host at any free port (port 0)."""
    listener = socket.socket(socket.AF_UNIX if isinstance(address, str) else _family(address[0]))
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket, host: str) -> Address:
    """Where others find a socket that listens."""
    if listener.family == socket.AF_UNIX:
        return str(listener.getsockname())
    return host, int(listener.getsockname()[1])


def connect(address: Address, timeout: float) -> socket.socket:
    """A connection to whoever listens there."""
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(timeout)
        try:
            made.connect(address)
        except OSError:
            made.close()
            raise
        return made
    made = socket.create_connection(address, timeout)
    tune(made)
    return made


def tune(connection: socket.socket) -> None:
    """Send small frames at once, and notice a machine that does not answer any more."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _SILENCE // 3),
        ("TCP_KEEPINTVL", _SILENCE // 6),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", _SILENCE * 1000),
    ):
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
