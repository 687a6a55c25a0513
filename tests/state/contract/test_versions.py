"""Versions: steps that are lost, repeated, rolled back or merged; workers that come and go; stores that don't fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.errors import StateMismatchError, VersionError
from beadline.state.segments.files import SegmentFiles, read_segment
from beadline.state.segments.segment import decode_segment
from beadline.state.segments.version import SegmentRef
from tests.state.contract.subject import ANY, Make, Step, Subject

VALUE = ValueStateDescriptor("v", ANY)
LIST = ListStateDescriptor("l", ANY)
MAP = MapStateDescriptor("m", ANY, ANY)


def write(step: Step, turn: int, keys: int = 5) -> None:
    for number in range(keys):
        here = step.at(f"k{number}")
        here["v"].update([turn])
        here["l"].add(turn)
        here["m"].put(turn, number)
        here["m"].remove(turn - 2)
        step.timers.register(turn, f"k{number}")
        step.timers.delete(turn - 1, f"k{number}")


def write_and_fail(step: Step) -> None:
    write(step, 99)
    raise ZeroDivisionError


def check(subject: Subject, turns: int, keys: int = 5) -> None:
    """What :func:`write` leaves after so many turns, in closed form."""
    with subject.step(fate="lost") as step:
        for number in range(keys):
            here = step.at(f"k{number}")
            assert here["v"].value() == ([turns - 1] if turns else None)
            assert list(here["l"].get()) == list(range(turns))
            assert dict(here["m"].items()) == dict.fromkeys(range(max(0, turns - 2), turns), number)
        assert step.timers.first() == (turns - 1 if turns else None)
        assert len(list(step.timers.due(1 << 40))) == (keys if turns else 0)


def lived(make: Make, turns: int) -> Subject:
    subject = make(VALUE, LIST, MAP)
    for turn in range(turns):
        with subject.step() as step:
            write(step, turn)
    return subject


def test_every_step_adds_one_version(make: Make) -> None:
    subject = lived(make, 4)
    versions = [segment.version for segment in subject.handle.segments]
    assert len(set(versions)) == 4
    check(subject, 4)


def test_a_step_that_reads_makes_no_version(make: Make) -> None:
    subject = lived(make, 2)
    before = subject.handle
    with subject.step() as step:
        step.at("k0")["v"].value()
        list(step["m"].items())
    assert subject.handle is before


def test_an_exception_in_the_middle_leaves_nothing(make: Make) -> None:
    subject = lived(make, 2)
    with pytest.raises(ZeroDivisionError), subject.step() as step:
        write_and_fail(step)
    check(subject, 2)


def test_a_step_that_is_run_again_makes_the_same_version(make: Make) -> None:
    subject = lived(make, 2)
    before = subject.handle
    with subject.step() as step:
        write(step, 2)
    first, subject.handle = subject.handle, before
    with subject.step() as step:
        write(step, 2)
    assert subject.handle.version == first.version
    check(subject, 3)


def test_back_to_the_very_beginning(make: Make) -> None:
    subject = make(VALUE, LIST, MAP)
    beginning = subject.handle
    for turn in range(3):
        with subject.step() as step:
            write(step, turn)
    subject.handle = beginning
    check(subject, 0)
    with subject.step() as step:
        write(step, 0)
    check(subject, 1)


def test_several_steps_behind(make: Make) -> None:
    """A worker that had the subtask long ago catches up with what it missed."""
    subject = lived(make, 2)
    elsewhere = subject.switched("hashmap")
    for turn in (2, 3, 4):
        with elsewhere.step() as step:
            write(step, turn)
    subject.handle = elsewhere.handle
    subject.reads = 0
    check(subject, 5)
    if subject.way == "kept":
        assert subject.reads == 3


def test_what_an_attempt_left_is_not_taken_for_what_another_sealed(make: Make) -> None:
    subject = lived(make, 2)
    elsewhere = subject.switched("hashmap")
    with subject.step(fate="lost") as step:
        write(step, 99)
    with elsewhere.step() as step:
        write(step, 2)
    subject.handle = elsewhere.handle
    check(subject, 3)


def test_a_kept_store_takes_what_it_has_itself(make: Make) -> None:
    subject = lived(make, 3)
    with subject.step() as step:
        write(step, 3)
    reads = subject.reads
    check(subject, 4)
    assert subject.reads == (reads if subject.way == "kept" else subject.reads)
    if subject.way == "kept":
        assert reads == 0


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize(("start", "end"), [(0, 2), (0, 6), (1, 3), (2, 6), (4, 6)])
def test_merged_segments_are_the_same_state(make: Make, start: int, end: int, by_key: bool) -> None:
    subject = lived(make, 6)
    subject.merge(start, end, by_key=by_key)
    check(subject, 6)
    with subject.step() as step:
        write(step, 6)
    check(subject, 7)


def test_a_pending_overlay_is_not_mistaken_for_a_segment_that_was_merged_with_it(make: Make) -> None:
    """The version of the last segment may by now mean several segments, while the store stands before all of them."""
    subject = lived(make, 3)
    older = subject.store
    for turn in (3, 4):
        with subject.step() as step:
            write(step, turn)
    subject.merge(2, 5)
    if subject.way == "kept":
        assert subject.store is older
    check(subject, 5)


def test_damage_is_noticed_and_the_next_attempt_goes_well(make: Make) -> None:
    subject = lived(make, 2)
    subject.lose()
    whole, good = subject.handle, subject.handle.segments[1]
    assert good.inline is not None
    broken = good.inline[:40] + b"?" + good.inline[41:]
    subject.handle = type(whole)(
        whole.root, (whole.segments[0], SegmentRef(good.version, good.entries, good.size, broken))
    )
    with pytest.raises(VersionError, match="checksum"), subject.step():
        pass
    subject.handle = whole
    check(subject, 2)


def test_another_kind_of_state_under_the_same_name_is_refused(make: Make) -> None:
    subject = lived(make, 1)
    wrong = make(ListStateDescriptor("v", ANY), name="wrong", handle=subject.handle)
    message = "state 'v' is of kind value in the snapshot and list in the program"
    with pytest.raises(StateMismatchError, match=message), wrong.step():
        pass
    check(subject, 1)


def test_state_by_window_in_place_of_state_by_key_is_refused(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.at("k")["v"].update(1)
    # The timers would be refused first; look at the table alone.
    store = subject.open()
    with pytest.raises(
        StateMismatchError, match="is of kind value in the snapshot and value, by window in the program"
    ):
        store.table("v", "value", namespaced=True)
    store.release()


def test_a_new_state_joins_a_job_that_has_others(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.at("k")["v"].update(1)
    more = make(VALUE, LIST, MAP, name="more", handle=subject.handle)
    with more.step() as step:
        assert step.at("k")["v"].value() == 1
        assert list(step["l"].get()) == []
        step["l"].add(1)
        step["m"].put("a", 1)
    with more.step() as step:
        assert list(step.at("k")["l"].get()) == [1]
        assert step["m"].get("a") == 1


def test_a_state_that_the_program_dropped_stays_in_the_segments(make: Make) -> None:
    subject = lived(make, 2)
    fewer = make(VALUE, name="fewer", handle=subject.handle)
    with fewer.step() as step:
        step.at("k0")["v"].update([7])
    assert {name for segment in fewer.handle.segments for name in decode_segment(segment.inline or b"")} >= {
        "v",
        "l",
        "m",
    }
    again = make(VALUE, LIST, MAP, name="again", handle=fewer.handle)
    with again.step() as step:
        assert step.at("k0")["v"].value() == [7]
        assert list(step["l"].get()) == [0, 1]


def test_two_executions_of_a_job_do_not_disturb_each_other(make: Make) -> None:
    one, two = make(VALUE, LIST, MAP), make(VALUE, LIST, MAP)
    for turn in range(3):
        with one.step() as step, two.step() as other:
            write(step, turn)
            write(other, turn, keys=2)
    check(one, 3)
    check(two, 3, keys=2)


def test_everything_removed_merges_to_nothing(make: Make) -> None:
    subject = make(VALUE)
    for value in (1, None):
        with subject.step() as step:
            step.at("k")["v"].update(value)
    subject.merge()
    assert subject.handle.segments[0].inline == b""
    subject.lose()
    for value in (5, 6):
        with subject.step() as step:
            assert step.at("k")["v"].value() == (None if value == 5 else 5)
            step["v"].update(value)


def test_a_store_is_opened_from_files(make: Make, folder: Path) -> None:
    subject, files = lived(make, 3), SegmentFiles(str(folder))
    stored = [
        replace(segment, path=files.write(f"{segment.version}.run", segment.inline or b""), inline=None)
        for segment in subject.handle.segments
    ]
    again = make(VALUE, LIST, MAP, name="again", handle=replace(subject.handle, segments=tuple(stored)))
    again.read = read_segment  # type: ignore[method-assign]
    check(again, 3)
