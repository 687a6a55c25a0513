"""A sealed step that somebody looks at stays whole while the job goes on, merges and deletes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.functions import KeyedProcessFunction, RuntimeContext
from beadline.datastream.state import ValueStateDescriptor
from beadline.errors import BeadlineError
from beadline.master import life
from beadline.master.job import JobMaster
from beadline.master.upkeep.views import LONGEST, Views
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.local.tables import tables_of
from beadline.testing import Crash, TestSource

KEYS = 30
pytestmark = pytest.mark.usefixtures("local_engine")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def snapshot(*paths: str) -> Snapshot:
    segments = tuple(SegmentRef(path, 1, 1, path=path) for path in paths[1:])
    own = OperatorStateHandle({"s": StateRef("list", (SegmentRef(paths[0], 1, 1, path=paths[0]),))})
    operator = OperatorSnapshot("o", "o", 1, 8, keyed=(KeyedStateHandle("r", segments),), operator_state=(own,))
    return Snapshot(0, "j", "j", 1, 0, (operator,))


class TestViews:
    def test_files_stay_until_the_view_is_closed_or_its_time_is_up(self) -> None:
        clock = Clock()
        views = Views(clock)
        first, second = views.open(snapshot("/a", "/b"), 10), views.open(snapshot("/b", "/c"), 20)
        assert views.files() == {"/a", "/b", "/c"}
        first.close()
        assert views.files() == {"/b", "/c"}
        assert not first.is_open
        clock.now += 21
        assert views.files() == frozenset()
        assert not second.is_open

    def test_a_view_can_be_kept_for_longer_but_not_brought_back(self) -> None:
        clock = Clock()
        views = Views(clock)
        view = views.open(snapshot("/a"), 10)
        clock.now += 9
        assert view.keep(10)
        clock.now += 9
        assert view.is_open
        clock.now += 2
        assert not view.keep(10)
        assert views.files() == frozenset()

    def test_nobody_keeps_files_for_ever(self) -> None:
        clock = Clock()
        view = Views(clock).open(snapshot("/a"), 1e9)
        clock.now += LONGEST + 1
        assert not view.is_open


class Records(TestSource):
    """A script that can be ended early: a step that is cancelled leaves files open, for the collector to complain."""

    over = False

    def plan(self, start: Any, rows: int, parallelism: int) -> tuple[Any, list[Any]]:
        return (start, []) if Records.over else super().plan(start, rows, parallelism)


class Counting(KeyedProcessFunction):
    """How many times each key has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)


@contextmanager
def started(folder: Path, script: list[Any]) -> Iterator[JobMaster]:
    """A job that sees each key once in every step, and whose state is all in files."""
    config = Configuration()
    for name, value in {
        "execution.checkpointing.dir": str(folder),
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.interval": "100ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "9",
        "restart-strategy.fixed-delay.delay": "10ms",
    }.items():
        config.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    records = env.from_source(
        Records(script, bounded=False, step=KEYS), WatermarkStrategy.no_watermarks(), "records", Types.LONG()
    )
    records.key_by(lambda n: n, Types.LONG()).process(Counting()).uid("counting")
    Records.over = False
    client = env.execute_async("counting")
    (master,) = [job for job in life.jobs if job.job_id == str(client.get_job_id())]
    yield master
    Records.over = True
    until(master, lambda: master.running is None or not master.running._current.is_running)
    client.cancel().result()


def until(master: JobMaster, condition: Callable[[], bool]) -> None:
    """Wait for something while the job runs."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, master
        assert not master.wait(0.005), master.error


def step_of(master: JobMaster) -> int:
    return master.truth.step if master.truth is not None else 0


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[JobMaster]:
    with started(tmp_path, [n for _ in range(20_000) for n in range(KEYS)]) as master:
        yield master


def counts(snapshot: Snapshot) -> dict[int, int]:
    (table,) = tables_of(Catalog("the view", snapshot))
    found = table.read().read_all()
    return dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))


def test_a_view_is_one_sealed_step_however_much_is_merged(counting: JobMaster) -> None:
    """Each key comes once in every step, so a view in which counts differ would mix two steps."""
    until(counting, lambda: step_of(counting) > 0)
    outlived = 0
    for _ in range(8):
        view = counting.look(30).result(10)
        step = view.snapshot.step
        until(counting, lambda step=step: step_of(counting) > step + 20)  # a merge or two, with all that they delete
        assert counting.truth is not None
        assert counting.running is not None
        needed = counting.truth.book.live_files() | counting.running.checkpoints.registry.files()
        outlived += len(view.snapshot.files() - needed)
        assert counts(view.snapshot) == dict.fromkeys(range(KEYS), step)
        view.close()
    assert outlived > 10, "what was looked at was not merged away meanwhile: the test proves nothing"


def test_what_was_looked_at_is_deleted_afterwards(counting: JobMaster, tmp_path: Path) -> None:
    until(counting, lambda: step_of(counting) > 4)
    view = counting.look(30).result(10)
    files = view.snapshot.files()
    assert files
    until(counting, lambda: step_of(counting) > view.snapshot.step + 60)
    assert all(map(os.path.exists, files))
    view.close()
    until(counting, lambda: not any(map(os.path.exists, files)))


def test_a_view_outlives_a_failure_of_the_job(tmp_path: Path) -> None:
    rounds: list[Any] = [n for _ in range(30) for n in range(KEYS)]
    with started(tmp_path, [*rounds, Crash(), *rounds]) as master:
        until(master, lambda: step_of(master) > 4)
        view = master.look(30).result(10)
        until(master, lambda: bool(master.history))
        until(master, lambda: step_of(master) >= 60)
        assert counts(view.snapshot) == dict.fromkeys(range(KEYS), view.snapshot.step)
        view.close()


def test_nobody_looks_at_a_job_that_has_ended(tmp_path: Path) -> None:
    with started(tmp_path, [1]) as master:
        pass
    with pytest.raises(BeadlineError, match="job 'counting' has ended: CANCELED"):
        master.look(1).result(5)
