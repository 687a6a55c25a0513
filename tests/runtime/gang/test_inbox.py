"""What waits for the tasks of a member comes out in the order that a re-run repeats, from memory and from a file."""

from __future__ import annotations

import random

import pytest

from beadline.runtime.exchange.rows import BARRIER, DATA, DESCRIPTOR, DESCRIPTOR_SEQ, WireRow
from beadline.runtime.gang import inbox as inbox_module
from beadline.runtime.gang.inbox import Inbox


def rows_for(level: int, partition: int) -> list[WireRow]:
    """A descriptor, three chunks in each of two channels, and the barriers, in order."""
    rows = [WireRow(partition, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, b"descriptor")]
    for seq in range(3):
        rows += [
            WireRow(partition, level, channel, seq, DATA, b"%d %d %d" % (level, channel, seq)) for channel in (7, 9)
        ]
    return rows + [WireRow(partition, level, channel, 3, BARRIER, b"barrier") for channel in (7, 9)]


@pytest.mark.parametrize("in_memory", [1 << 20, 30, 0])
def test_each_task_gets_its_rows_by_sequence_and_channel(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MOST_IN_MEMORY", in_memory)
    tasks = [(1, 0), (1, 2), (2, 0)]
    rows = [row for task in tasks for row in rows_for(*task)]
    random.Random(1).shuffle(rows)
    inbox = Inbox()
    for row in rows:
        inbox.add([row])
    for task in tasks:
        assert list(inbox.take(*task)) == rows_for(*task)
    assert list(inbox.take(1, 0)) == []
    inbox.close()


def test_a_level_is_ended_by_each_of_the_others() -> None:
    inbox = Inbox()
    inbox.end(0)
    inbox.end(1)
    inbox.end(0)
    assert [inbox.ended(level) for level in range(3)] == [2, 1, 0]
