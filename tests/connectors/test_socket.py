"""Lines from a real socket."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beadline.connectors import socket as socket_module
from beadline.connectors.socket import Peer, SocketLines
from beadline.connectors.source import Unreadable
from beadline.errors import ConfigurationError, InputError
from tests.lines_server import PATIENCE_SECONDS, LinesServer, until


@pytest.fixture
def server() -> Iterator[LinesServer]:
    made = LinesServer()
    yield made
    made.close()


@pytest.fixture
def made() -> Iterator[Callable[..., SocketLines]]:
    sources: list[SocketLines] = []

    def make(peer: Peer, *more: Any) -> SocketLines:
        sources.append(SocketLines(peer, *more))
        return sources[-1]

    yield make
    for source in sources:
        source.stop()


def read(source: SocketLines, split: Any) -> list[Any]:
    copied: SocketLines = pickle.loads(pickle.dumps(source))  # as in a task
    found: list[Any] = []
    for batch in copied.read_batches(split):
        found += [batch] if isinstance(batch, Unreadable) else batch
    return found


def next_lines(source: SocketLines, position: Any, count: int) -> tuple[Any, list[Any]]:
    """Plan steps until so many lines have come."""
    found: list[Any] = []

    def enough() -> bool:
        nonlocal position
        position, splits = source.plan(position, 1000, 2)
        for split in splits:
            found.extend(read(source, split))
        return len(found) >= count

    until(enough)
    return position, found


def test_lines_until_the_peer_closes(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port))
    assert source.plan(source.initial(), 10, 1) == ({"line": 0}, [])
    server.accept()
    server.send(b"one\r\ntw")
    position, lines = next_lines(source, source.initial(), 1)
    assert lines == ["one"]
    server.send("o\n\nthré".encode())
    server.hang_up()
    position, lines = next_lines(source, position, 3)
    assert lines == ["two", "", "thré"], "what has no end of line is the last line"
    assert position == {"line": 4}
    until(lambda: source.finished(position))
    assert source.plan(position, 10, 1) == (position, [])


def test_a_step_gets_as_many_lines_as_it_asks_for_and_the_same_again(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port))
    source.plan({"line": 0}, 1, 1)
    server.accept()
    server.send(b"".join(b"%d\n" % n for n in range(10)))
    until(lambda: source.plan({"line": 9}, 1, 1)[1])
    end, splits = source.plan({"line": 0}, 3, 2)
    assert end == {"line": 3}
    assert source.plan({"line": 0}, 3, 2) == (end, splits), "the job went back, and the driver still has them"
    assert read(source, splits[0]) == ["0", "1", "2"] == read(source, splits[0])
    source.commit({"line": 3})
    assert source.plan({"line": 0}, 2, 1)[0] == {"line": 5}, "these are gone"


def test_numbers_go_on_in_a_driver_that_takes_over(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port))
    source.plan({"line": 700}, 1, 1)
    server.accept()
    server.send(b"a\nb\n")
    position, lines = next_lines(source, {"line": 700}, 2)
    assert (position, lines) == ({"line": 702}, ["a", "b"])


def test_lines_that_are_not_text_are_named(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port), "ascii")
    source.plan({"line": 0}, 1, 1)
    server.accept()
    server.send(b"good\nb\xe4d\ngood again\n")
    _, lines = next_lines(source, {"line": 0}, 3)
    assert lines[0] == "good"
    assert repr(lines[1]) == f"b'b\\xe4d' (line 1 of 127.0.0.1:{server.port})"
    assert "the line is not ascii: ordinal not in range" in str(lines[1].problem)
    assert lines[2] == "good again"


def test_another_delimiter_may_lie_across_packets(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port, b"||"))
    source.plan({"line": 0}, 1, 1)
    server.accept()
    server.send(b"a\r||b|")
    time.sleep(0.05)
    server.send(b"|c||")
    assert next_lines(source, {"line": 0}, 3)[1] == ["a\r", "b", "c"]


def test_it_connects_again_as_often_as_it_may(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port, max_retries=1, retry_seconds=0.01))
    source.plan({"line": 0}, 1, 1)
    server.accept()
    server.send(b"first\n")
    server.hang_up()
    server.accept()
    server.send(b"second\n")
    position, lines = next_lines(source, {"line": 0}, 2)
    assert lines == ["first", "second"]
    server.break_off()
    server.accept()
    assert not source.finished(position)
    server.hang_up()
    until(lambda: source.finished(position))  # the last connection gave nothing, so that was the last try


def test_a_connection_that_breaks_fails_the_job_and_is_made_again_afterwards(server: LinesServer, made: Any) -> None:
    source = made(Peer("127.0.0.1", server.port))
    source.plan({"line": 0}, 1, 1)
    server.accept()
    server.send(b"before\n")
    position, _ = next_lines(source, {"line": 0}, 1)
    server.break_off()

    with pytest.raises(InputError, match="broke"):
        until(lambda: source.plan(position, 1, 1)[1])
    assert not source.finished(position)
    source.plan(position, 1, 1)
    server.accept()
    server.send(b"after\n")
    assert next_lines(source, position, 1) == ({"line": 2}, ["after"])


def test_nobody_answers(made: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    source = made(Peer("127.0.0.1", port))
    with pytest.raises(InputError, match=rf"can't connect to 127\.0\.0\.1:{port}: .*Is the server running"):
        source.plan({"line": 0}, 1, 1)


def test_a_sender_that_is_too_fast_has_to_wait(server: LinesServer, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "_MOST_WAITING", 1 << 18)
    monkeypatch.setattr(socket_module, "_MOST_KEPT", 1 << 16)
    source = made(Peer("127.0.0.1", server.port))
    source.plan({"line": 0}, 1, 1)
    server.accept()
    line = b"x" * 1023 + b"\n"
    total = 32 << 10  # 32 MB: more than sockets hold
    sender = threading.Thread(target=lambda: server.send(line * total), daemon=True)
    sender.start()
    sender.join(0.5)
    assert sender.is_alive(), "nobody reads, so it waits"
    position, lines = next_lines(source, {"line": 0}, total)
    assert position == {"line": total}
    assert len(lines) == total
    sender.join(PATIENCE_SECONDS)
    assert source.plan({"line": 0}, total, 1)[1][0][0] > total - 100, "of what was given, little is kept"


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (Peer("h", 0), "a port is a number from 1 to 65535, got 0"),
        (Peer("h", 70000), "got 70000"),
        (Peer("h", 1, b""), "can't be empty"),
        (Peer("h", 1, max_retries=-2), "got -2 and 0.5 s"),
    ],
    ids=["no port", "large port", "no delimiter", "retries"],
)
def test_what_can_not_be(peer: Peer, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        SocketLines(peer)


def test_an_unknown_encoding() -> None:
    with pytest.raises(ConfigurationError, match="knows no encoding 'klingon'"):
        SocketLines(Peer("h", 1), "klingon")
