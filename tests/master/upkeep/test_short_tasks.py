"""Work while steps run: short tasks, a few at a time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from beadline.errors import VersionError
from beadline.master.engines.local import LocalEngine
from beadline.master.upkeep import short_tasks
from beadline.master.upkeep.short_tasks import GivenUp, ShortTasks


class FewSlots(LocalEngine):
    """Counts how many tasks there are at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.cancelled: list[str] = []
        self.quiet: list[str] = []

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)

    def wait_until_quiet(self, group: str) -> None:
        assert self.now == 0
        self.quiet.append(group)

    def run_each(
        self, function: Any, items: list[Any], group: str = "", what: str = "", width: int | None = None
    ) -> list[Any]:
        assert len(items) == width, "one item per task"
        with self.lock:
            self.now += len(items)
            self.most = max(self.most, self.now)
        try:
            time.sleep(0.002)
            return [function(item) for item in items]
        finally:
            with self.lock:
                self.now -= len(items)


def tasks(cluster: FewSlots, slots: int, function: Any) -> ShortTasks[int, int]:
    return ShortTasks(cluster, "group", "count", slots, lambda: function)


@pytest.mark.parametrize("slots", [1, 3, 8, 20])
def test_results_come_in_order_and_never_too_many_at_a_time(slots: int) -> None:
    cluster = FewSlots()
    found = tasks(cluster, slots, lambda item: item * item).run(list(range(100)), until_quiet=True)
    assert found == [item * item for item in range(100)]
    assert 1 <= cluster.most <= slots
    assert cluster.cancelled == []
    assert cluster.quiet == ["group"]


def test_nothing_to_do() -> None:
    cluster = FewSlots()
    assert tasks(cluster, 2, None).run([], until_quiet=True) == []
    assert cluster.quiet == []


def test_what_spark_gives_up_on_is_done_again() -> None:
    failures = iter([RuntimeError("executor lost"), RuntimeError("and again")])

    def sometimes(item: int) -> int:
        for failure in failures:
            raise failure
        return item

    assert tasks(FewSlots(), 1, sometimes).run([1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize("error", [RuntimeError("a broken disk"), VersionError("a damaged segment")])
def test_what_fails_every_time_ends_the_work(error: Exception) -> None:
    cluster = FewSlots()
    seen: list[int] = []

    def fails(item: int) -> int:
        seen.append(item)
        if item == 5:
            raise error
        return item

    with pytest.raises(type(error), match=str(error)):
        tasks(cluster, 1, fails).run(list(range(100)), until_quiet=True)
    assert max(seen) == 5
    assert seen.count(5) == (1 if isinstance(error, VersionError) else 3)
    assert cluster.cancelled == cluster.quiet == ["group"]


@pytest.mark.parametrize("at_once", [True, False])
def test_work_that_is_stopped_ends_soon(at_once: bool) -> None:
    cluster = FewSlots()
    seen: list[int] = []

    def stops(item: int) -> int:
        seen.append(item)
        if item == 3:
            work.stop(at_once)
            assert cluster.cancelled == (["group"] if at_once else [])
        return item

    work = tasks(cluster, 1, stops)
    with pytest.raises(GivenUp, match="count: given up"):
        work.run(list(range(100)))
    assert seen == [0, 1, 2, 3]
    assert set(cluster.cancelled) == {"group"}


class OneRound:
    """Tasks that end by themselves, or only when they are cancelled."""

    def __init__(self, patient: bool) -> None:
        self.ended, self.patient = threading.Event(), patient
        self.stops: list[bool] = []

    def run(self, items: list[Any]) -> list[Any]:
        assert self.ended.wait(30)
        raise GivenUp("merge: given up")

    def stop(self, at_once: bool = True) -> None:
        self.stops.append(at_once)
        if at_once or self.patient:
            self.ended.set()


@pytest.mark.parametrize("patient", [True, False])
def test_the_last_merges_of_a_job_may_end_but_not_for_ever(patient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = OneRound(patient)
    monkeypatch.setattr(short_tasks, "ShortTasks", lambda *_: tasks)
    monkeypatch.setattr(short_tasks, "_LAST_TASKS_SECONDS", 0.05)
    merger = short_tasks.Merger(LocalEngine(), "job-merge", lambda: None)  # type: ignore[arg-type, return-value]
    request: Any = object()
    merger.submit([request])
    while merger._tasks is None:
        time.sleep(0.001)
    merger.close()
    assert merger.idle
    assert tasks.stops == ([False] if patient else [False, True])
    assert merger.results() == []
