"""Only who knows the token is let in, and only into the present gang."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from beadline.runtime.gang.handshake import Refused, examine, introduce
from beadline.runtime.gang.link import LinkLost

TOKEN = b"t" * 32


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def only_gang_2(who: dict[str, Any]) -> str | None:
    return None if who["gang"] == 2 else f"gang {who['gang']} is over"


def examining(
    thread: ThreadPoolExecutor, connection: socket.socket, token: bytes = TOKEN, timeout: float = 10
) -> Future[dict[str, Any]]:
    return thread.submit(examine, connection, token, only_gang_2, timeout)


def test_both_ends_know_who_the_other_is(
    sockets: tuple[socket.socket, socket.socket], thread: ThreadPoolExecutor
) -> None:
    left, right = sockets
    let_in = examining(thread, right)
    introduce(left, TOKEN, {"gang": 2, "member": 1})
    assert let_in.result() == {"gang": 2, "member": 1}


def test_a_wrong_token_is_refused(sockets: tuple[socket.socket, socket.socket], thread: ThreadPoolExecutor) -> None:
    left, right = sockets
    let_in = examining(thread, right)
    with pytest.raises(Refused, match="wrong token"):
        introduce(left, b"x" * 32, {"gang": 2})
    with pytest.raises(Refused, match="wrong token"):
        let_in.result()


def test_a_late_worker_of_an_old_gang_is_refused(
    sockets: tuple[socket.socket, socket.socket], thread: ThreadPoolExecutor
) -> None:
    left, right = sockets
    let_in = examining(thread, right)
    with pytest.raises(Refused, match="gang 1 is over"):
        introduce(left, TOKEN, {"gang": 1})
    with pytest.raises(Refused, match="gang 1 is over"):
        let_in.result()


def test_one_who_listens_without_the_token_is_found_out(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    left, right = sockets

    def pretend() -> None:
        right.sendall(b"n" * 32)
        right.recv(4096)
        right.sendall(b"+" + struct.pack("!H", 32) + b"p" * 32)

    impostor = threading.Thread(target=pretend)
    impostor.start()
    with pytest.raises(Refused, match="the other end does not know the token"):
        introduce(left, TOKEN, {"gang": 2})
    impostor.join()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n"])
def test_one_who_says_nothing_or_something_else_is_not_waited_for(
    said: bytes, sockets: tuple[socket.socket, socket.socket], thread: ThreadPoolExecutor
) -> None:
    left, right = sockets
    left.sendall(said)
    with pytest.raises(LinkLost, match="did not introduce itself"):
        examining(thread, right, timeout=0.05).result()


def test_an_endless_introduction_is_not_read(
    sockets: tuple[socket.socket, socket.socket], thread: ThreadPoolExecutor
) -> None:
    left, right = sockets
    left.sendall(b"n" * 32 + struct.pack("!H", 60_000))
    with pytest.raises(Refused, match="the introduction is too long"):
        examining(thread, right).result()
