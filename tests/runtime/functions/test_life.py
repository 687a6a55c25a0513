"""The life of a function with operator state: which objects may go on, and what they hear of checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beadline.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from beadline.api.function import MapFunction
from beadline.api.metrics import MetricGroup
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import ListStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import VersionError
from beadline.master.stepping import check_acks
from beadline.runtime.task.acks import changed, fingerprint
from tests.graph.programs import Program
from tests.runtime.harness import Given, Job


def job_of(function: MapFunction, folder: Path) -> Job:
    """One worker, one subtask: node 1 reads, node 2 is the function."""
    program = Program()
    program.collect(program.map(program.source(Given(), parallelism=1), function=function))
    return Job(program, folder, 1)


class Life(MapFunction, CheckpointedFunction, CheckpointListener):
    """Tells what happened to it."""

    told: list[Any] = []  # noqa: RUF012 - workers of the harness share it

    def __init__(self) -> None:
        self.held = 0

    def _tell(self, *what: Any) -> None:
        Life.told.append((*what, self.held))

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("held", Types.LONG()))
        self.held = sum(self.state.get())
        self._tell("initialize", context.is_restored(), context.get_restored_checkpoint_id())

    def open(self, runtime_context: RuntimeContext) -> None:
        self._tell("open")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.held])
        self._tell("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._tell("complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._tell("aborted", checkpoint_id)

    def map(self, value: Any) -> Any:
        self.held += value
        self._tell("map", value)
        return self.held

    def close(self) -> None:
        self._tell("close")


@pytest.fixture
def life(tmp_path: Path) -> Job:
    Life.told = []
    return job_of(Life(), tmp_path)


def told() -> list[Any]:
    done, Life.told = Life.told, []
    return done


def test_the_life_of_a_function(life: Job) -> None:
    life.step({1: [[5]]}, now=70)
    assert told() == [
        ("initialize", False, None, 0),
        ("open", 0),
        ("map", 5, 5),
        ("snapshot", 1, 70, 5),
    ]
    life.step({1: [[1]]}, now=80)
    assert told() == [("map", 1, 6), ("snapshot", 2, 80, 6)]
    life.workers = [life.new_worker()]
    life.step({1: [[1]]}, final=True)
    assert told() == [
        ("initialize", True, 2, 6),
        ("open", 6),
        ("map", 1, 7),
        ("snapshot", 3, 80, 7),
        ("close", 7),
    ]


def test_an_attempt_that_was_not_sealed_leaves_no_function(life: Job) -> None:
    life.step({1: [[5]]})
    told()
    life.attempt({1: [[3]]})
    assert told() == [("map", 3, 8), ("snapshot", 2, 0, 8)]
    life.step({1: [[0]]})
    assert [entry[0] for entry in told()] == ["close", "initialize", "open", "map", "snapshot"]
    assert life.out["out"] == [5, 5]


def test_nor_does_one_that_changed_nothing(life: Job) -> None:
    """Its fields may have changed in ways that its state does not show."""
    life.step({1: [[5]]})
    life.attempt({1: [[0]]})
    told()
    life.step({1: [[0]]})
    assert [entry[0] for entry in told()] == ["close", "initialize", "open", "map", "snapshot"]


def test_a_subtask_that_comes_back_to_a_worker_finds_no_old_function(life: Job) -> None:
    here, elsewhere = life.workers[0], life.new_worker()
    life.step({1: [[5]]})
    life.workers = [elsewhere]
    life.step({1: [[2]]})
    life.workers = [here]
    told()
    life.step({1: [[1]]})
    assert told()[:3] == [("close", 5), ("initialize", True, 2, 7), ("open", 7)]
    assert life.out["out"] == [5, 7, 8]


def test_unless_nothing_changed_meanwhile(life: Job) -> None:
    here, elsewhere = life.workers[0], life.new_worker()
    life.step({1: [[5]]})
    life.workers = [elsewhere]
    life.step({1: [[]]})
    life.workers = [here]
    told()
    life.step({1: [[1]]})
    assert told() == [("map", 1, 6), ("snapshot", 3, 0, 6)]


def test_going_back_drops_the_future(life: Job) -> None:
    life.step({1: [[5]]})
    version = life.savepoint()
    life.step({1: [[1, 1]]})
    life.go_back(version)
    told()
    life.step({1: [[10]]})
    assert told()[:2] == [("initialize", True, 1, 5), ("open", 5)]
    assert life.out["out"] == [5, 6, 7, 15]


def test_a_step_on_another_version_is_not_sealed(life: Job) -> None:
    life.step({1: [[5]]})
    version = life.savepoint()
    life.step({1: [[1]]})
    acks = life.attempt({1: [[1]]})
    life.go_back(version)
    with pytest.raises(VersionError, match=r"map\[0\] worked on version \w+ of its operator state"):
        check_acks(life.plan, acks, life.handles, life.states)


def test_notifications_come_first_in_order_and_once(life: Job) -> None:
    life.step({1: [[5]]})
    told()
    life.step({1: [[1]]}, news=((1,), ()))
    assert told() == [("complete", 1, 5), ("map", 1, 6), ("snapshot", 2, 0, 6)]
    life.step({1: [[1]]}, news=((1, 4), (3, 2)))
    assert told()[:4] == [("aborted", 2, 6), ("aborted", 3, 6), ("complete", 4, 6), ("map", 1, 7)]
    life.workers = [life.new_worker()]
    life.step({1: [[1]]}, news=((5,), ()))
    assert [entry[0] for entry in told()] == ["initialize", "open", "complete", "map", "snapshot"]


class Listener(MapFunction, CheckpointListener):
    """Sends on what it heard of, since its fields are not state."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)

    def map(self, value: Any) -> Any:
        return value, tuple(self.heard)


def test_functions_without_state_hear_of_checkpoints_too(tmp_path: Path) -> None:
    job = job_of(Listener(), tmp_path)
    job.step({1: [[1]]}, news=((1,), ()))
    job.step({1: [[2]]}, news=((1, 2), (3,)))
    assert job.out["out"] == [(1, (1,)), (2, (1, 2))]


# -- fields are not state: what counts as a change


class Sample(MapFunction):
    def __init__(self) -> None:
        self.number = 1
        self.nan = float("nan")
        self.items = [1, [2]]
        self.by_name: dict[str, Any] = {"a": {1}}
        self.queue = deque([1])
        self.pair = (1, [2])
        self.anything = object()
        self.metrics = MetricGroup()
        self.many = list(range(100))

    def map(self, value: Any) -> Any:
        return value


def test_nothing_changed() -> None:
    sample = Sample()
    assert changed(fingerprint(sample), sample) == []


def replace(name: str, value: Any) -> Callable[[Sample], None]:
    return lambda sample: setattr(sample, name, value)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (replace("number", 2), ["number"]),
        (lambda s: s.items.append(3), ["items"]),
        (lambda s: s.items[1].append(3), ["items"]),
        (lambda s: s.by_name["a"].add(2), ["by_name"]),
        (lambda s: s.by_name.pop("a"), ["by_name"]),
        (lambda s: s.queue.popleft(), ["queue"]),
        (lambda s: s.pair[1].append(3), ["pair"]),
        (replace("anything", [1]), ["anything"]),
        (lambda s: s.many.append(1), ["many"]),
        (lambda s: delattr(s, "number"), ["number"]),
        (replace("added", 1), ["added"]),
        (lambda s: (setattr(s, "number", 2), s.items.clear()), ["items", "number"]),
        (replace("metrics", MetricGroup()), []),
    ],
)
def test_changes_are_named(change: Callable[[Sample], None], names: list[str]) -> None:
    sample = Sample()
    before = fingerprint(sample)
    change(sample)
    assert changed(before, sample) == names
