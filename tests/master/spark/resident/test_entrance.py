"""Who may join a gang, and who sits where."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

from beadline.master.spark.resident.entrance import Entrance
from beadline.master.spark.resident.gang import seats
from beadline.runtime.gang.handshake import Refused, introduce
from beadline.runtime.gang.link import connect

ADMITTED: Queue[tuple[dict[str, Any], socket.socket]] = Queue()


@pytest.fixture(params=[None, "127.0.0.1"], ids=["one machine", "several machines"])
def entrance(request: pytest.FixtureRequest) -> Iterator[Entrance]:
    def objection(who: dict[str, Any]) -> str | None:
        return None if who["gang"] == 2 else f"gang {who['gang']} is over: this is gang 2"

    made = Entrance(request.param, "127.0.0.1", objection, lambda who, connection: ADMITTED.put((who, connection)))
    yield made
    made.close()


def test_a_worker_of_this_gang_is_let_in(entrance: Entrance) -> None:
    with connect(entrance.address, 5) as connection:
        introduce(connection, entrance.token, {"gang": 2})
        who, accepted = ADMITTED.get(timeout=10)
        assert who == {"gang": 2}
        accepted.close()


def test_a_late_worker_of_an_old_gang_is_not(entrance: Entrance) -> None:
    with connect(entrance.address, 5) as connection, pytest.raises(Refused, match="gang 1 is over: this is gang 2"):
        introduce(connection, entrance.token, {"gang": 1})


def test_nobody_is_without_the_token(entrance: Entrance) -> None:
    with connect(entrance.address, 5) as connection, pytest.raises(Refused, match="wrong token"):
        introduce(connection, b"x" * 32, {"gang": 2})


def test_who_says_nothing_holds_up_nobody(entrance: Entrance) -> None:
    with connect(entrance.address, 5):
        test_a_worker_of_this_gang_is_let_in(entrance)


def test_after_the_end_nobody_is_let_in(entrance: Entrance) -> None:
    entrance.close()
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        connect(entrance.address, 5)


def test_workers_sit_where_they_sat_before() -> None:
    """They have the stores of those subtasks. A seat that two ask for goes to one of them, others fill up."""
    connection: Any = None
    arrived = [
        ({"pid": pid, "seat": seat}, connection) for pid, seat in [(10, None), (11, 2), (12, 0), (13, 2), (14, 9)]
    ]
    assert [who["pid"] for who, _ in seats(arrived)] == [12, 10, 11, 13, 14]
