"""Who is at the other end of a new connection. Both ends prove that they know the gang's token without sending it.

Nothing is unpickled before that. Each side waits for the other only so long: whoever connects and says nothing holds up
nobody else.

1. the side that listens sends a nonce
2. the side that connects sends a nonce of its own, who it is, and a proof over all of this
3. the side that listens lets it in, with a proof, or refuses it, with the reason
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from beadline.runtime.gang.link import LinkLost

_NONCE = 32
_PROOF = 32
_LENGTH = struct.Struct("!H")
_MOST = 4096  # bytes of an introduction
_WELCOME, _REFUSED = b"+", b"-"
PATIENCE = 10.0


class Refused(Exception):
    """The other end does not want this one, or does not know the token."""


def introduce(connection: socket.socket, token: bytes, who: dict[str, Any], timeout: float = PATIENCE) -> None:
    """The connecting side: say who this is, and make sure who the other is."""
    deadline = time.monotonic() + timeout
    theirs = _read(connection, _NONCE, deadline)
    mine, said = os.urandom(_NONCE), json.dumps(who).encode()
    body = _LENGTH.pack(len(said)) + said
    connection.sendall(mine + body + _proof(token, b"connects", theirs, mine, body))
    verdict = _read(connection, 1, deadline)
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, deadline))
    told = _read(connection, min(length, _MOST), deadline)
    if verdict != _WELCOME:
        raise Refused(told.decode(errors="replace"))
    if not hmac.compare_digest(told, _proof(token, b"listens", mine, theirs, b"")):
        raise Refused("the other end does not know the token")


def examine(
    connection: socket.socket,
    token: bytes,
    objection: Callable[[dict[str, Any]], str | None],
    timeout: float = PATIENCE,
) -> dict[str, Any]:
    """The listening side: who has connected. ``objection`` says why somebody who knows the token is not let in."""
    deadline = time.monotonic() + timeout
    mine = os.urandom(_NONCE)
    connection.settimeout(timeout)
    connection.sendall(mine)
    theirs = _read(connection, _NONCE, deadline)
    head = _read(connection, _LENGTH.size, deadline)
    (length,) = _LENGTH.unpack(head)
    if length > _MOST:
        raise _refusal(connection, "the introduction is too long")
    said = _read(connection, length, deadline)
    proof = _read(connection, _PROOF, deadline)
    if not hmac.compare_digest(proof, _proof(token, b"connects", mine, theirs, head + said)):
        raise _refusal(connection, "wrong token")
    who: dict[str, Any] = json.loads(said)
    reason = objection(who)
    if reason is not None:
        raise _refusal(connection, reason)
    told = _proof(token, b"listens", theirs, mine, b"")
    connection.sendall(_WELCOME + _LENGTH.pack(len(told)) + told)
    return who


def _refusal(connection: socket.socket, reason: str) -> Refused:
    told = reason.encode()[:_MOST]
    with contextlib.suppress(OSError):
        connection.sendall(_REFUSED + _LENGTH.pack(len(told)) + told)
    return Refused(reason)


def _proof(token: bytes, side: bytes, first: bytes, second: bytes, body: bytes) -> bytes:
    return hmac.digest(token, side + first + second + body, "sha256")


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Exactly so many bytes, in time."""
    read = b""
    while len(read) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LinkLost("the other end did not introduce itself in time")
        connection.settimeout(left)
        try:
            piece = connection.recv(size - len(read))
        except OSError as error:
            raise LinkLost(f"the other end did not introduce itself: {error}") from error
        if not piece:
            raise LinkLost("the other end hung up")
        read += piece
    return read
