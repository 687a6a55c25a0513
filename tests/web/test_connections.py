"""Connections that say nothing, and too many of them: whoever has the token is answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse

import pytest

from beadline.common import JobClient
from beadline.web import connections
from tests.web.drivers import TOKEN, Driver, wait_for


@pytest.fixture(scope="module")
def job(driver: Driver) -> Iterator[JobClient]:
    yield driver.start("held")
    driver.end()


@pytest.fixture(autouse=True)
def _answers(driver: Driver, job: JobClient) -> None:
    """The server runs, and nothing is left of the test before."""
    driver.get("/jobs/overview")


@pytest.fixture
def connect(driver: Driver) -> Iterator[object]:
    with ExitStack() as stack:

        def open_one(text: str) -> socket.socket:
            made = stack.enter_context(socket.create_connection(("127.0.0.1", driver.port), 10))
            made.settimeout(30)
            made.sendall(text.encode())
            return made

        yield open_one


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionError:
        return True


def status(connection: socket.socket) -> int:
    """Of an answer that is read to its end."""
    answer = HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer.status


HOST = "Host: 127.0.0.1\r\n"
TOKEN_LINE = f"Authorization: Bearer {TOKEN}\r\n"


@pytest.mark.parametrize(
    "begin",
    [
        "",
        "GET / HTTP/1.1\r\nHost: x",
        f"POST /jobs/x/stop HTTP/1.1\r\n{HOST}{TOKEN_LINE}Content-Length: 100\r\n\r\n" + "{",
    ],
)
def test_who_does_not_come_to_the_end_of_a_request_is_let_go(connect, monkeypatch, begin: str) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    assert is_closed(connect(begin))


def test_a_byte_now_and_then_does_not_help(connect, monkeypatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    held = connect("GET / HTTP/1.1\r\nHost: ")
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.1):
            try:
                held.sendall(b"x")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        assert is_closed(held)
    finally:
        over.set()
        thread.join()


def test_the_second_request_of_a_connection_has_a_limit_too(connect, monkeypatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    held = connect(f"GET /config HTTP/1.1\r\n{HOST}\r\n")
    assert status(held) == 200
    held.sendall(b"GET / HTTP")
    assert is_closed(held)


def test_who_does_not_read_the_answer_is_let_go(driver: Driver, connect, monkeypatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.2)
    asked = f"GET /openapi.json HTTP/1.1\r\n{HOST}\r\n" * 200
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with deaf:
        deaf.connect(("127.0.0.1", driver.port))
        deaf.settimeout(30)

        def refused() -> bool:
            try:
                deaf.sendall(asked.encode())
                return False
            except ConnectionError:
                return True

        wait_for(refused)


def test_any_number_of_idle_connections_leaves_room_for_the_next_caller(driver: Driver, connect, monkeypatch) -> None:
    """The owner, with his token, and others without one: the connection that has waited longest goes."""
    monkeypatch.setattr(connections, "MOST_STRANGERS", 8)
    held = [connect("GET / HTTP/1.1\r\nHost: x") for _ in range(60)]
    assert status(connect(f"GET /jobs/overview HTTP/1.1\r\n{HOST}{TOKEN_LINE}\r\n")) == 200
    assert status(connect(f"PATCH /jobs/none?mode=cancel HTTP/1.1\r\n{HOST}{TOKEN_LINE}\r\n")) == 404
    assert is_closed(held[0])
    connect("GET / HTTP/1.1\r\nHost: x")
    plain = connect(f"GET /config HTTP/1.1\r\n{HOST}\r\n")
    assert status(plain) == 200


def test_who_has_shown_the_token_keeps_the_place(driver: Driver, connect, monkeypatch) -> None:
    monkeypatch.setattr(connections, "MOST_STRANGERS", 8)
    own = connect(f"GET /config HTTP/1.1\r\n{HOST}{TOKEN_LINE}\r\n")
    assert status(own) == 200
    for _ in range(40):
        connect("GET / HTTP/1.1\r\nHost: x")
    own.sendall(f"GET /config HTTP/1.1\r\n{HOST}\r\n".encode())
    assert status(own) == 200


def test_streams_of_events_without_the_token_are_few(driver: Driver, job: JobClient, connect, monkeypatch) -> None:
    monkeypatch.setattr(connections, "MOST_STRANGE_STREAMS", 3)
    path = f"/jobs/{job.get_job_id()}/beadline/events"

    def answer(more: str = "") -> bytes:
        return bytes(connect(f"GET {path} HTTP/1.1\r\n{HOST}{more}\r\n").recv(1 << 10).partition(b"\r\n")[0])

    assert [b"200" in answer() for _ in range(3)] == [True, True, True]
    assert b"503" in answer()
    assert b"200" in answer(TOKEN_LINE)
