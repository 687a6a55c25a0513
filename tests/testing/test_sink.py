"""The sink that a test can ask."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Types
from beadline.connectors.sink import Committer, Held, StagedSink
from beadline.testing import VerifyingSink
from tests.connectors.files.test_files import publish_ready


class Run:
    """Plays the driver: steps, checkpoints, failures."""

    def __init__(self, sink: VerifyingSink) -> None:
        self.made: StagedSink = sink._make_sink(Types.PICKLED_BYTE_ARRAY())
        self.made.prepare("0123456789")
        self.committer: Committer = self.made.committer()
        self.step_number = 0
        self.waiting: list[Any] = []

    def step(self, *records_by_subtask: list[Any], final: bool = False) -> None:
        self.step_number += 1
        pieces = []
        for subtask, records in enumerate(records_by_subtask):
            in_task: StagedSink = pickle.loads(pickle.dumps(self.made))
            stager = in_task.stager(subtask, self.step_number, 0)
            stager.write(records, None)
            pieces += stager.finish()
        self.committer.sealed(pieces, self.step_number, final)

    def checkpoint(self) -> tuple[int, Any, list[Any]]:
        self.waiting += map(self.committer.precommitter(), self.committer.due(at_checkpoint=True))
        return self.step_number, self.committer.snapshot(), list(self.waiting)

    def complete(self) -> None:
        publish_ready(self.committer, self.waiting)
        self.waiting = []

    def restore(self, checkpoint: tuple[int, Any, list[Any]]) -> None:
        self.step_number, staged, committables = checkpoint
        self.waiting = []
        self.committer.restore(staged, [Held(staged, [], committables)])
        publish_ready(self.committer, committables)


def test_nothing_is_there_before_it_is_committed() -> None:
    sink = VerifyingSink()
    run = Run(sink)
    run.step([1, 2], [3])
    assert sink.read() == []
    run.checkpoint()
    assert sink.read() == []
    run.complete()
    assert sink.read() == [1, 2, 3]
    assert "3 records" in repr(sink)


def test_records_are_ordered_by_step_and_not_by_file() -> None:
    sink = VerifyingSink()
    run = Run(sink)
    for number in range(12):  # counters of two digits
        run.step([f"first {number}"], [f"second {number}"])
        run.checkpoint()
        run.complete()
    assert sink.read() == [f"{who} {number}" for number in range(12) for who in ("first", "second")]


def test_what_was_committed_after_a_checkpoint_that_is_restored_is_gone() -> None:
    sink = VerifyingSink()
    run = Run(sink)
    run.step([1])
    first = run.checkpoint()
    run.complete()
    run.step([2])
    run.checkpoint()
    run.complete()
    assert sink.read() == [1, 2]
    run.restore(first)
    assert sink.read() == [1]
    run.step([2])
    run.checkpoint()
    run.complete()
    sink.assert_exactly([1, 2])


@given(st.lists(st.sampled_from(["step", "checkpoint", "complete", "fail"]), max_size=30))
def test_whatever_happens_each_record_is_committed_once(story: list[str]) -> None:
    sink = VerifyingSink()
    run = Run(sink)
    next_record = 0
    saved = (run.checkpoint(), 0)
    pending: tuple[Any, int] | None = None
    for event in story:
        if event == "step":
            run.step([("a", next_record)], [("b", next_record)])
            next_record += 1
        elif event == "checkpoint" and pending is None:
            pending = (run.checkpoint(), next_record)
        elif event == "complete" and pending is not None:
            saved, pending = pending, None
            run.complete()
        elif event == "fail":
            run.restore(saved[0])
            next_record, pending = saved[1], None
        sink.assert_exactly([(who, number) for who in "ab" for number in range(saved[1])])
        sink.assert_in_order(key=lambda r: r[0], by=lambda r: r[1])


def committed(*records: Any) -> VerifyingSink:
    sink = VerifyingSink()
    run = Run(sink)
    run.step(list(records))
    run.checkpoint()
    run.complete()
    return sink


def test_it_tells_what_is_missing_and_what_is_too_much() -> None:
    sink = committed(1, 2, 2, 9)
    with pytest.raises(AssertionError, match=r"4 records .* Missing: 3\. Not expected, or not so often: 2, 9\."):
        sink.assert_exactly([1, 2, 3])
    sink.assert_exactly([9, 2, 1, 2])
    with pytest.raises(AssertionError, match=r"Missing: 10, 11, 12, 13, 14 and 15 more\.$"):
        sink.assert_exactly([9, 2, 1, 2, *range(10, 30)])


def test_records_that_no_dictionary_takes_are_compared_too() -> None:
    sink = committed([1], [1], {"a": 2})
    sink.assert_exactly([{"a": 2}, [1], [1]])
    with pytest.raises(AssertionError, match=r"Missing: \[3\]\. Not expected, or not so often: \[1\]\."):
        sink.assert_exactly([{"a": 2}, [1], [3]])


def test_order_is_judged_by_key() -> None:
    committed(("a", 1), ("b", 1), ("a", 2), ("b", 5)).assert_in_order(lambda r: r[0], lambda r: r[1])
    with pytest.raises(AssertionError, match=r"of key 'a', \('a', 1\) comes behind \('a', 2\)"):
        committed(("a", 2), ("b", 1), ("a", 1)).assert_in_order(lambda r: r[0], lambda r: r[1])
    with pytest.raises(AssertionError, match=r"of key 'a', \('a', 2\) comes behind \('a', 2\)"):
        committed(("a", 2), ("a", 2)).assert_in_order(lambda r: r[0], lambda r: r[1])


def test_a_file_that_is_not_complete_is_an_error() -> None:
    sink = committed("a long record", "and another")
    (name,) = [name for name in os.listdir(sink.folder) if name.endswith(".records")]
    path = os.path.join(sink.folder, name)
    with open(path, "r+b") as stream:
        stream.truncate(os.path.getsize(path) - 1)
    with pytest.raises(AssertionError, match="cut short"):
        sink.read()


def test_waiting_ends_when_enough_is_there_or_time_is_up() -> None:
    assert committed(1, 2).wait_for(2) == [1, 2]
    with pytest.raises(AssertionError, match=r"2 of 3 records were committed within 0\.01 s"):
        committed(1, 2).wait_for(3, timeout=0.01)


def test_its_temporary_folder_goes_with_it() -> None:
    sink = committed(1)
    folder = sink.folder
    del sink
    assert not os.path.exists(folder)
