"""Sources with a script."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import WatermarkStrategy
from beadline.connectors.source import as_source
from beadline.datastream import ProcessFunction
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.testing import At, AwaitCheckpoint, Crash, EndStep, Pause, TestCrash, TestSource, VerifyingSink
from tests.datastream.jobs import environment


def play(source: TestSource, rows: int = 1000, checkpoints: bool = True) -> list[list[Any]]:
    """The records of each step, as a job would read them; a step that crashes is read again."""
    position, steps = source.initial(), []
    while not source.finished(position):
        end, splits = source.plan(position, rows, 2)
        if not splits:
            if not source.finished(end):
                assert end == position, "a range without records must not move on"
                if not checkpoints:
                    break
            source.commit(position)
            continue
        while True:
            task: TestSource = pickle.loads(pickle.dumps(source))  # each attempt in a process of its own
            try:
                batches = [list(task.read_batches(split)) for split in splits]
                break
            except TestCrash:
                continue
        steps.append([record for split in batches for batch in split for record in batch])
        position = end
    return steps


def test_the_script_decides_where_steps_end() -> None:
    source = TestSource([1, 2, EndStep(), 3, EndStep(), EndStep(), 4, 5, EndStep()])
    assert as_source(source) is source
    assert play(source) == [[1, 2], [3], [4, 5]]
    assert play(source, rows=1) == [[1], [2], [3], [4], [5]]
    assert play(TestSource(range(7), step=3)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_it_crashes_as_often_as_it_should_and_then_no_more() -> None:
    source = TestSource([1, Crash(), 2, EndStep(), Crash(times=2), 3])
    _, splits = source.plan(source.initial(), 10, 1)
    with pytest.raises(TestCrash, match="crash 1 of 1 at element 1"):
        list(source.read_batches(splits[0]))
    assert source.crashes == 1
    assert play(source) == [[1, 2], [3]]
    assert source.crashes == 3
    assert play(source) == [[1, 2], [3]]
    assert source.crashes == 3


def test_what_comes_before_a_crash_is_processed() -> None:
    source = TestSource([1, 2, Crash(), 3])
    batches = source.read_batches((0, 4))
    assert next(batches) == [1, 2]
    with pytest.raises(TestCrash):
        next(batches)


def test_crashes_are_remembered_by_a_second_process(tmp_path: Path) -> None:
    folder = str(tmp_path / "markers")
    with pytest.raises(TestCrash):
        list(TestSource([Crash(), 1], markers=folder).read_batches((0, 2)))
    assert list(TestSource([Crash(), 1], markers=folder).read_batches((0, 2))) == [[1]]


def test_its_temporary_folder_goes_with_it_but_not_with_copies() -> None:
    source = TestSource([Crash(), 1])
    folder = Path(source._markers)
    copied = pickle.loads(pickle.dumps(source))
    del copied
    assert folder.is_dir()
    del source
    assert not folder.exists()


def test_nothing_is_read_behind_a_checkpoint_that_is_awaited() -> None:
    source = TestSource([1, 2, AwaitCheckpoint(), 3])
    assert play(source, checkpoints=False) == [[1, 2]]
    position, _ = source.plan(source.initial(), 10, 1)
    source.commit(source.initial())
    assert source.plan(position, 10, 1) == (position, [])  # that checkpoint was older
    source.commit(position)
    assert source.plan(position, 10, 1) == ({"index": 4}, [(3, 4)])
    assert play(source, checkpoints=False) == [[1, 2], [3]]


def test_a_job_waits_for_a_checkpoint_at_the_end() -> None:
    source = TestSource([1, AwaitCheckpoint()])
    end, _ = source.plan(source.initial(), 10, 1)
    assert not source.finished(end)
    source.commit(end)
    assert source.finished(end)


def test_unbounded_sources_wait_behind_the_last_record() -> None:
    source = TestSource([1, EndStep()], bounded=False)
    end, splits = source.plan(source.initial(), 10, 1)
    assert splits
    assert not source.finished(end)
    assert source.plan(end, 10, 1) == (end, [])


def test_records_may_have_timestamps() -> None:
    source = TestSource([At("a", 5), Crash(), At("b", 7)])
    assert source.timed
    with pytest.raises(TestCrash):
        list(source.read_batches((0, 3)))
    assert list(source.read_batches((0, 3))) == [(["a"], [5]), (["b"], [7])]
    assert not TestSource([1]).timed
    with pytest.raises(ConfigurationError, match="and 'b' has none"):
        TestSource([At("a", 5), EndStep(), "b"])


def test_a_pause_takes_its_time() -> None:
    before = time.monotonic()
    assert list(TestSource([1, Pause(0.05), 2]).read_batches((0, 3))) == [[1], [2]]
    assert time.monotonic() - before >= 0.05


def test_changing_a_record_does_not_change_the_script() -> None:
    source = TestSource([[1], [2]])
    for batch in source.read_batches((0, 2)):
        for record in batch:
            record.append("changed")
    assert list(source.read_batches((0, 2))) == [[[1], [2]]]


class Stamp(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp()


def test_in_a_task_a_crash_is_a_failure_of_the_source() -> None:
    source = TestSource([At("a", 5), EndStep(), At("b", 7), Crash(), At("c", 9)])
    sink = VerifyingSink()

    def run() -> None:
        env = environment(1, beadline__engine="local")
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "letters")
        stream.process(Stamp()).sink_to(sink)
        env.execute()

    with pytest.raises(JobExecutionError, match=r"'source letters'.*TestCrash: crash 1 of 1 at element 3"):
        run()
    sink.assert_exactly([("a", 5)])
    run()
    sink.assert_exactly([("a", 5), ("a", 5), ("b", 7), ("c", 9)])


def test_scripts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least once"):
        Crash(times=0)
    with pytest.raises(ConfigurationError, match="at least one record"):
        TestSource([1], step=0)


ELEMENTS = st.one_of(
    st.integers(0, 9),
    st.builds(Crash, times=st.integers(1, 3)),
    st.just(EndStep()),
    st.just(AwaitCheckpoint()),
    st.just(Pause(0.0)),
)


@given(st.lists(ELEMENTS, max_size=30), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 5)))
def test_every_record_comes_once_and_in_order_however_it_is_cut(script: list[Any], rows: int, step: int | None) -> None:
    source = TestSource(script, step=step)
    steps = play(source, rows)
    assert [record for records in steps for record in records] == [e for e in script if isinstance(e, int)]
    assert all(len(records) <= min(rows, step or rows) for records in steps)
    assert source.crashes == sum(e.times for e in script if isinstance(e, Crash))
    cuts = [i for i, e in enumerate(script) if isinstance(e, EndStep | AwaitCheckpoint)]
    records_before = [sum(isinstance(e, int) for e in script[:cut]) for cut in cuts]
    ends = {sum(map(len, steps[: i + 1])) for i in range(len(steps))} | {0}
    assert set(records_before) <= ends
