"""Names, numbers and order of what goes outside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from beadline.connectors.sink import Former, Held
from beadline.connectors.transactions import LogSink, TransactionalSink
from beadline.connectors.transactions.committer import OutsideCommitter
from tests.connectors.transactions.ledger import Journal, Ledger, visible

RUN, OTHER, THIRD = "0" * 32, "1" * 32, "2" * 32


def as_they_are(records: list[Any], timestamps: list[int] | None) -> list[Any]:
    return records


class Driver:
    """One driver's sink and committer."""

    def __init__(
        self,
        folder: Path,
        run: str = RUN,
        epoch: int = 1,
        log: bool = False,
        name: str = "",
        former: Sequence[Former] = (),
    ) -> None:
        self.out = folder / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / ".pending").mkdir(exist_ok=True)
        outside: Any = Journal(str(self.out)) if log else Ledger(str(self.out))
        self.sink = LogSink(outside, as_they_are) if log else TransactionalSink(outside, as_they_are, "test")
        self.sink.prepare(run, epoch, str(folder / run), name, former)
        committer = self.sink.committer()
        assert isinstance(committer, OutsideCommitter)
        self.committer = committer

    def stage(self, *rows: str, subtask: int = 0) -> None:
        stager = self.sink.stager(subtask, 1, 0)
        stager.write(list(rows), None)
        self.committer.sealed(stager.finish(), 0, False)

    def ready(self) -> list[Any]:
        return [self.committer.precommitter()(part) for part in self.committer.due(at_checkpoint=True)]

    def publish(self, committables: list[Any], recovering: bool = False) -> list[Any]:
        return self.committer.publish(committables, _here, recovering)

    def seen(self) -> list[str]:
        return visible(self.out)


def _here(function: Any, items: list[Any], weight: Any) -> list[Any]:
    return [function(item) for item in items]


def test_numbers_grow_through_drivers_of_a_job(tmp_path: Path) -> None:
    first, second = Driver(tmp_path), Driver(tmp_path, epoch=2)
    first.stage("a")
    (a,) = first.ready()
    second.committer.restore(first.committer.snapshot(), [Held(None, [], [a])])
    second.stage("b")
    (b,) = second.ready()
    assert b["number"] > a["number"]
    assert b["writer"] == a["writer"]


def test_a_job_that_begins_from_nothing_is_another_writer(tmp_path: Path) -> None:
    """It may have the id of an earlier one, and its numbers begin again."""
    writers = set()
    for _ in range(2):
        driver = Driver(tmp_path, epoch=0, log=True)
        driver.committer.restore(driver.committer.snapshot(), [])
        driver.stage("a")
        (a,) = driver.ready()
        assert driver.publish([a]) == []
        writers.add(a["writer"])
    assert len(writers) == 2
    assert driver.seen() == ["a", "a"]


def test_a_job_from_a_savepoint_of_another_gives_no_number_twice(tmp_path: Path) -> None:
    """A checkpoint may hold output that was numbered after it noted the last number."""
    old = Driver(tmp_path, epoch=5)
    noted = old.committer.snapshot()
    old.stage("a")
    (a,) = old.ready()
    drivers = [Driver(tmp_path, OTHER), Driver(tmp_path, OTHER, epoch=2)]
    snapshot, committables, seen = noted, [a], []
    for number, driver in enumerate(drivers):
        driver.committer.restore(snapshot, [Held(snapshot, [], committables)])
        assert driver.publish(committables, recovering=True) == []
        driver.stage(f"new {number}")
        (new,) = driver.ready()
        assert driver.publish([new]) == []
        snapshot, committables = driver.committer.snapshot(), [new]
        seen.append(new["number"])
    assert a["number"] < seen[0] < seen[1]
    assert drivers[0].seen() == ["a", "new 0", "new 1"]


def test_what_a_savepoint_brought_along_comes_first(tmp_path: Path) -> None:
    """With another parallelism, the newer rows of its keys are in other subtasks."""
    old = Driver(tmp_path)
    old.stage("old", subtask=3)
    new = Driver(tmp_path, OTHER)
    new.committer.restore(old.committer.portable(old.committer.snapshot(), []), [])
    new.stage("new", subtask=1)
    ready = new.ready()
    assert [(each["subtask"], len(each["pieces"])) for each in ready] == [(3, 1), (1, 1)]
    assert ready[0]["number"] < ready[1]["number"]
    assert new.publish(ready[::-1]) == []
    assert new.seen() == ["old", "new"]


def test_nothing_overtakes_what_was_lost(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    ready = []
    for row in "abc":
        driver.stage(row, subtask=0)
        driver.stage(row.upper(), subtask=1)
        ready += driver.ready()
    driver.committer._outside.abort(ready[2])  # b
    assert driver.publish(ready) == [ready[2], ready[4]]
    assert driver.seen() == ["a", "A", "B", "C"]
    driver.stage("d")
    (d,) = driver.ready()
    assert driver.publish([d]) == [d], "before anybody has heard of it, nothing more of that subtask"
    parts = driver.committer.again([ready[2], ready[4], d], [ready[2], ready[4], d])
    again = [driver.committer.precommitter()(part) for part in parts]
    assert driver.publish(again) == []
    assert driver.seen()[4:] == ["b", "c", "d"]
    assert driver.publish(ready) == [], "what is visible stays so"
    assert len(driver.seen()) == 7


def test_a_job_that_ends_for_good_leaves_nothing_open(tmp_path: Path) -> None:
    driver, later, other = Driver(tmp_path), Driver(tmp_path, epoch=2), Driver(tmp_path, OTHER)
    for each in (driver, later, other):
        each.stage("a")
        each.ready()
    ledger = Ledger(str(driver.out))
    driver.committer.close(discard=False)
    assert len(ledger.list_open("test-")) == 3
    driver.committer.close(discard=True)
    assert [id.split("-")[1:3] for id in ledger.list_open("test-")] == [["0" * 8, "2"], ["1" * 8, "1"]]


@pytest.mark.parametrize("log", [False, True], ids=["transactions", "log"])
def test_a_savepoint_that_publishes_holds_all_it_needs(log: bool, tmp_path: Path) -> None:
    old = Driver(tmp_path, log=log)
    old.stage("a", "b")
    saved = old.committer.portable_committables(old.ready())
    snapshot = old.committer.snapshot()
    old.committer.close(discard=True)  # which aborts what was not published
    new = Driver(tmp_path, OTHER, log=log)
    new.committer.restore(snapshot, [Held(snapshot, [], saved)])
    lost = new.publish(saved, recovering=True)
    assert lost == ([] if log else saved)
    again = new.committer.again(lost, lost)
    assert new.publish([new.committer.precommitter()(part) for part in again]) == []
    assert new.seen() == ["a", "b"]


def test_a_driver_aborts_what_earlier_ones_left_open_and_nothing_else(tmp_path: Path) -> None:
    """Not what a copy of its folder has open, whose lineage and epochs are the same, nor what is of another lineage."""
    names = {"dead": (RUN, "aaaaaaaa"), "copy": (RUN, "bbbbbbbb"), "namesake": (OTHER, "cccccccc"), "old": (THIRD, "")}
    drivers = {who: Driver(tmp_path, run, 1, name=name) for who, (run, name) in names.items()}
    for driver in drivers.values():
        driver.stage("a")
        assert len(driver.ready()) == 1
    former = [Former(RUN, "aaaaaaaa", 1, True, "test"), Former(THIRD, "", 1, True)]
    new = Driver(tmp_path, epoch=2, name="dddddddd", former=former)
    new.committer.restore(new.committer.snapshot(), [])
    left = [id.split("-")[1:3] for id in Ledger(str(new.out)).list_open("")]
    assert sorted(left) == sorted([[RUN[:8], "bbbbbbbb"], [OTHER[:8], "cccccccc"]])
    new.committer.close(discard=True)
    drivers["copy"].committer.close(discard=True)
    assert [id.split("-")[2] for id in Ledger(str(new.out)).list_open("")] == ["cccccccc"]


def test_a_job_from_a_checkpoint_of_another_is_another_writer(tmp_path: Path) -> None:
    """The other one may go on from it too, and give the same numbers to other rows."""
    first = Driver(tmp_path, log=True, name="aaaaaaaa")
    snapshot = first.committer.snapshot()
    second = Driver(tmp_path, OTHER, log=True, name="bbbbbbbb")
    second.committer.restore(snapshot, [Held(snapshot, [], [])])
    for driver in (first, second):
        driver.stage("a")
    assert first.ready()[0]["writer"] != second.ready()[0]["writer"]
