"""Frames between two ends that may both send at once."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from beadline.runtime.gang.link import Link, LinkLost, address_of, connect, listen, tune

MEGABYTE = 1 << 20


@pytest.fixture
def ends() -> Iterator[tuple[Link, Link]]:
    left, right = (Link(end, name) for end, name in zip(socket.socketpair(), ("right", "left"), strict=True))
    yield left, right
    left.close()
    right.close()


def frames_of(link: Link, count: int, other: Link) -> list[bytes]:
    """That many frames; what the other end has in its queue is sent meanwhile."""
    found: list[bytes] = []
    while len(found) < count:
        other.flush()
        found += link.receive()
    return found


@pytest.mark.parametrize("size", [0, 1, 100, MEGABYTE // 4 - 1, MEGABYTE // 4, 5 * MEGABYTE])
def test_a_frame_comes_as_it_was_sent(ends: tuple[Link, Link], size: int) -> None:
    left, right = ends
    sent = [bytes([number]) * size for number in range(3)]
    for frame in sent:
        left.send(frame)
    assert frames_of(right, 3, left) == sent


def test_two_ends_that_send_more_than_the_system_takes_do_not_wait_for_each_other(ends: tuple[Link, Link]) -> None:
    left, right = ends
    for _ in range(8):
        left.send(b"l" * MEGABYTE)
        right.send(b"r" * MEGABYTE)
    assert frames_of(right, 8, left) == [b"l" * MEGABYTE] * 8
    assert frames_of(left, 8, right) == [b"r" * MEGABYTE] * 8


def test_a_selector_asks_for_room_only_while_something_waits(ends: tuple[Link, Link]) -> None:
    left, right = ends
    with selectors.DefaultSelector() as selector:
        left.watch(selector)
        assert selector.select(0) == []
        left.send(b"x" * 8 * MEGABYTE)
        assert selector.get_key(left).events & selectors.EVENT_WRITE
        assert len(frames_of(right, 1, left)[0]) == 8 * MEGABYTE
        assert selector.get_key(left).events == selectors.EVENT_READ
        assert selector.select(0) == []


def test_what_was_sent_before_the_end_still_comes(ends: tuple[Link, Link]) -> None:
    left, right = ends
    left.send(b"last words")
    left.say_goodbye()
    assert right.receive() == [b"last words"]
    with pytest.raises(LinkLost, match="left has closed the connection"):
        right.receive()


def test_sending_to_an_end_that_is_gone_is_a_lost_link(ends: tuple[Link, Link]) -> None:
    left, right = ends
    right.close()
    with pytest.raises(LinkLost, match="right can't be reached"):
        left.send(b"x" * 8 * MEGABYTE)


def test_the_same_over_tcp() -> None:
    with listen(("127.0.0.1", 0)) as listener:
        left = Link(connect(address_of(listener, "127.0.0.1"), 5), "right")
        accepted, _ = listener.accept()
    tune(accepted)
    right = Link(accepted, "left")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    left.send(b"x" * 8 * MEGABYTE)
    assert frames_of(right, 1, left) == [b"x" * 8 * MEGABYTE]
    left.close()
    right.close()
