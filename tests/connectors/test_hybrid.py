"""Sources that are read one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.connectors.collections import CollectionSource
from beadline.connectors.file_source.text import TextFileSource
from beadline.connectors.hybrid import ChainedSource
from beadline.connectors.source import Part, PartSplit, Position, StepSource
from beadline.errors import ConfigurationError


def steps(source: StepSource, rows: int, parallelism: int = 2) -> Iterator[list[Any]]:
    """The records of each step until the source has finished."""
    position = source.initial()
    for _ in range(200):
        if source.finished(position):
            return
        end, splits = source.plan(position, rows, parallelism)
        ahead, _ = source.plan(end, 1, 1)
        assert ahead is not None
        if source.parted:
            assert {split.part for split in splits} <= {*source.parts(position), *source.parts(end)}
            yield list(source.read_parts(splits)) if splits else []
        else:
            yield [record for split in splits for batch in source.read_batches(split) for record in batch]
        position = end
    raise AssertionError("it does not end")


@given(st.lists(st.lists(st.integers(), max_size=7), min_size=1, max_size=4), st.integers(1, 5))
def test_all_records_come_in_the_order_of_the_sources(given_lists: list[list[int]], rows: int) -> None:
    source = ChainedSource([CollectionSource(each) for each in given_lists])
    source.prepare(batch=False)
    assert source.bounded
    assert [r for step in steps(source, rows) for r in step] == [r for each in given_lists for r in each]


def test_empty_files_at_the_end_of_a_source_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("")
    source = ChainedSource([TextFileSource([str(tmp_path)]), CollectionSource(["two"])])
    assert [r for step in steps(source, 1) for r in step] == ["one", "two"]


class Late(CollectionSource):
    """Begins with what is there when it is asked."""

    def __init__(self) -> None:
        super().__init__(list(range(10)))
        self.asked = 0

    def initial(self) -> Position:
        self.asked += 1
        return {"index": 6 + self.asked}


def test_a_source_begins_when_the_one_before_has_ended() -> None:
    last = Late()
    source = ChainedSource([CollectionSource([1, 2]), last])
    position = source.initial()
    position, splits = source.plan(position, 1, 1)
    assert (last.asked, len(splits)) == (0, 1)
    position, _ = source.plan(position, 1, 1)
    assert not source.finished(position)
    assert last.asked == 1
    position, splits = source.plan(position, 9, 1)
    assert last.asked == 1, "it is asked once, or what came between would be lost"
    assert [list(source.read_batches(split)) for split in splits] == [[[7, 8, 9]]]
    assert source.finished(position)


class Endless(CollectionSource):
    bounded = False


def test_only_the_last_may_go_on_for_ever() -> None:
    source = ChainedSource([CollectionSource([1]), Endless([2])])
    source.prepare(batch=False)
    assert not source.bounded
    with pytest.raises(ConfigurationError, match="source 1 of 2 never ends"):
        ChainedSource([Endless([1]), CollectionSource([2])]).prepare(batch=False)


class Timed(CollectionSource):
    timed = True


def test_timestamps_for_all_or_none() -> None:
    with pytest.raises(ConfigurationError, match="some of its sources give records with timestamps"):
        ChainedSource([CollectionSource([1]), Timed([2])])


class Weak(CollectionSource):
    committed: Any = None
    stopped = False

    def guarantee(self) -> str:
        return "at-most-once"

    def commit(self, position: Position) -> None:
        self.committed = position

    def stop(self) -> None:
        self.stopped = True


def test_the_rest_reaches_its_sources() -> None:
    first, last = CollectionSource([1]), Weak([2])
    source = ChainedSource([first, last])
    assert source.guarantee() == "at-most-once"
    source.commit({"source": 1, "at": {"index": 1}, "width": 1})
    assert last.committed == {"index": 1}
    source.stop()
    assert last.stopped


class Parted(CollectionSource):
    """Even and odd numbers are its parts."""

    parted = True

    def parts(self, position: Position) -> list[str]:
        return [] if self.finished(position) else ["even", "odd"]

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        end, _ = super().plan(start, rows, parallelism)
        numbers = range(start["index"], end["index"])
        return end, [PartSplit(("even", "odd")[n % 2], (n, n + 1)) for n in numbers]


def test_parts_of_each_source_have_names_of_their_own() -> None:
    source = ChainedSource([CollectionSource(["a", "b"]), Parted([0, 1, 2])])
    assert source.parted
    found = list(steps(source, 3))
    assert found == [
        [Part("0/0"), ["a", "b"]],
        [Part("1/even"), [0], Part("1/odd"), [1], Part("1/even"), [2]],
    ]
