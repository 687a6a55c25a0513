"""Rows become visible once, whatever becomes of checkpoints, executions and drivers in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beadline.checkpoint.contents.metadata import from_plain, to_plain
from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.settings import CheckpointSettings
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.checkpoint.storage.storage import JobStorage
from beadline.connectors.files import RollingPolicy, RowFileSink, pieces, renaming
from beadline.graph.plan import Plan
from beadline.graph.specs import SinkSpec
from beadline.master.definition import Job, JobSettings
from beadline.master.snapshots import calls as calls_module
from beadline.master.snapshots.records import Records
from beadline.master.snapshots.sinks import Sinks
from beadline.master.upgrade.compatibility import Acceptance
from beadline.runtime.messages import SubtaskAck
from tests.checkpoint.snapshots import take_over
from tests.master.snapshots import local_jobs
from tests.master.snapshots.local_jobs import consume, counting_plan, rows_in, staged_files
from tests.master.snapshots.troubles import TwiceEngine

AT_ONCE = RollingPolicy(part_size=1)
NEVER = RollingPolicy()


@pytest.fixture(autouse=True, params=["inline", "in files"])
def _inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in files":
        monkeypatch.setattr(pieces, "_INLINE", 0)
        monkeypatch.setattr(calls_module, "_LIGHT", -1)  # tasks do it all


class Kept(Records):
    """The checkpoints that the job may go back to, as far as sinks see them."""

    def __init__(self) -> None:
        super().__init__()
        self.data: Callable[[], list[Any]] = list

    def sink_data(self) -> list[Any]:
        return self.data()


def keep(sinks: Sinks, data: Callable[[], list[Any]]) -> None:
    assert isinstance(sinks._records, Kept)
    sinks._records.data = data


def encode(record: Any) -> bytes:
    return f"{record}\n".encode()


def file_sink(folder: Path, policy: RollingPolicy | None = None) -> RowFileSink:
    return local_jobs.file_sink(folder, policy, encode)


def sink_plan(*sinks: RowFileSink, parallelism: int = 1) -> Plan:
    return counting_plan(None, *sinks, parallelism=parallelism)


def staged(plan: Plan, rows: list[Any], uid: str = "sink", subtask: int = 0) -> SubtaskAck:
    """The acknowledgement of a sink's subtask that wrote these rows."""
    node = next(node for node in plan.nodes.values() if node.uid == uid)
    assert isinstance(node.spec, SinkSpec)
    stager = node.spec.sink.stager(subtask, 1, 0)
    stager.write(rows, None)
    return SubtaskAck(node.id, subtask, staged=stager.finish())


def make(plan: Plan, with_checkpoints: bool = True, storage: JobStorage | None = None) -> Sinks:
    settings = JobSettings(checkpoints=CheckpointSettings(interval_ms=10 if with_checkpoints else None))
    home: Any = SimpleNamespace(storage=storage or MemoryJobStorage("0123456789abcdef"))
    return Sinks(Job(plan, TwiceEngine(), settings, home, Acceptance(plan, False)), Kept())


def engine_of(sinks: Sinks) -> TwiceEngine:
    engine = sinks.calls._engine
    assert isinstance(engine, TwiceEngine)
    return engine


def lost(folder: Path) -> JobStorage:
    """The place of a job that another driver has taken."""
    driver = take_over(folder, "this one")
    take_over(folder, "another")
    return driver


def seal(sinks: Sinks, plan: Plan, rows: list[Any], final: bool = False, now: int = 0) -> None:
    sinks.sealed([staged(plan, rows)], now, final)
    if outputs := sinks.ready_at_once():
        sinks.published_at_once(sinks.publish_at_once(outputs))


def take(sinks: Sinks, number: int) -> Any:
    """Take a checkpoint, and give what is stored of it."""
    return stored(sinks.precommit(sinks.take(number)))


def ready_files(folder: Path) -> list[str]:
    return [path for path in staged_files(folder) if "ready-" in path]


def complete(sinks: Sinks, number: int) -> None:
    sinks.publish(sinks.completed(number))
    sinks.published(number)


def stored(data: Any) -> Any:
    """As a checkpoint gives it back."""
    return {uid: from_plain(to_plain(held, uid)) for uid, held in data.items()}


@pytest.mark.parametrize("precommitted", [False, True])
def test_output_of_a_checkpoint_that_was_given_up_goes_with_the_next(precommitted: bool, tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    data = sinks.take(1)
    if precommitted:
        sinks.precommit(data)
    seal(sinks, plan, [2])
    data = take(sinks, 2)
    assert len(data["sink"]["committables"]) == 2
    assert len(ready_files(tmp_path)) == 2, "each once"
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]
    assert take(sinks, 3)["sink"]["committables"] == []


def test_checkpoints_that_are_written_at_the_same_time_share_what_is_pre_committed(tmp_path: Path) -> None:
    """Both may complete: whichever is restored, what the other has published does not come again."""
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    first = sinks.take(1)
    seal(sinks, plan, [2])
    second = sinks.take(2)
    with ThreadPoolExecutor(2) as threads:
        two, one = (stored(data) for data in threads.map(sinks.precommit, [second, first]))
    assert one["sink"]["committables"] == two["sink"]["committables"][:1]
    complete(sinks, 1)
    assert consume(tmp_path) == ["1"]
    make(plan).restore(two)
    assert rows_in(tmp_path) == ["2"]


def test_what_could_not_be_pre_committed_is_done_again_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sink_plan(file_sink(tmp_path), parallelism=2)
    sinks = make(plan)
    sinks.sealed([staged(plan, [1]), staged(plan, [2], subtask=1)], 0, False)
    write, calls = renaming._write, iter([True, True])

    def full(path: str, content: Any) -> None:
        write(path, content)
        if next(calls, False) and "2" in Path(path).read_text():
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(renaming, "_write", full)
        patch.setattr(calls_module, "_LIGHT", 1 << 20)
        with pytest.raises(OSError, match="No space left"):
            sinks.precommit(sinks.take(1))
    assert ready_files(tmp_path) == [], "not even the part that was pre-committed well"
    take(sinks, 2)
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]


def test_a_light_part_needs_no_slot_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow step may hold all of them: a checkpoint would have to wait for it."""
    monkeypatch.setattr(calls_module, "_LIGHT", 4)
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    take(sinks, 1)
    assert engine_of(sinks).calls == 0
    seal(sinks, plan, [12, 34, 56])
    take(sinks, 2)
    assert engine_of(sinks).calls == 1


@pytest.mark.parametrize("policy", [AT_ONCE, RollingPolicy(rollover_ms=15)])
def test_at_least_once_publishes_when_a_step_is_sealed(policy: RollingPolicy, tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path, policy))
    sinks = make(plan, with_checkpoints=False)
    seal(sinks, plan, [1], now=0)
    seal(sinks, plan, [2], now=10)
    data = take(sinks, 1)
    keep(sinks, lambda: [data])
    seal(sinks, plan, [3], now=20)
    assert rows_in(tmp_path) == ["1", "2", "3"]
    sinks.restore(data)
    assert rows_in(tmp_path) == (["1", "2"] if policy is AT_ONCE else [])
    seal(sinks, plan, [3], final=True, now=20)
    assert rows_in(tmp_path) == ["1", "2", "3"], "what the checkpoint held back is still there"


def test_without_a_checkpoint_the_lease_is_looked_at_before_publishing(tmp_path: Path) -> None:
    """A driver that was paused and lost its job would take the names that the new one uses."""
    plan = sink_plan(file_sink(tmp_path / "out", AT_ONCE))
    sinks = make(plan, with_checkpoints=False, storage=lost(tmp_path / "checkpoints"))
    with pytest.raises(Fenced):
        seal(sinks, plan, [1])
    assert rows_in(tmp_path / "out") == []


def test_a_folder_that_is_away_for_a_while_keeps_nobody_from_publishing(tmp_path: Path) -> None:
    storage = take_over(tmp_path / "checkpoints", "this one")
    plan = sink_plan(file_sink(tmp_path / "out", AT_ONCE))
    sinks = make(plan, with_checkpoints=False, storage=storage)
    shutil.rmtree(storage.folder)
    seal(sinks, plan, [1])
    assert rows_in(tmp_path / "out") == ["1"]


def test_a_sink_that_the_checkpoint_does_not_know_begins_from_the_beginning(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path / "one"), file_sink(tmp_path / "two"))
    sinks = make(plan)
    sinks.sealed([staged(plan, [1]), staged(plan, [1], "second")], 0, False)
    data = {"sink": take(sinks, 1)["sink"]}
    complete(sinks, 1)
    sinks.sealed([staged(plan, [2]), staged(plan, [2], "second")], 0, False)
    sinks.restore(data)
    assert (rows_in(tmp_path / "one"), rows_in(tmp_path / "two")) == (["1"], [])
    sinks.sealed([staged(plan, [3]), staged(plan, [3], "second")], 0, True)
    take(sinks, 2)
    complete(sinks, 2)
    assert (rows_in(tmp_path / "one"), rows_in(tmp_path / "two")) == (["1", "3"], ["3"])


def test_two_sinks_may_write_to_one_folder(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path), file_sink(tmp_path))
    sinks = make(plan)
    for number in (1, 2):
        sinks.sealed([staged(plan, [f"a{number}"]), staged(plan, [f"b{number}"], "second")], 0, False)
        data = take(sinks, number)
        complete(sinks, number)
    assert rows_in(tmp_path) == ["a1", "a2", "b1", "b2"]
    sinks.restore(data)
    assert rows_in(tmp_path) == ["a1", "a2", "b1", "b2"], "one does not take the other's rows for later ones"


def test_each_publication_has_a_job_group_of_its_own(tmp_path: Path) -> None:
    """What is run again cancels the Spark jobs of its group: a step, or another publication."""
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    take(sinks, 1)
    complete(sinks, 1)
    groups = engine_of(sinks).groups
    assert all(group.startswith("beadline-0123456789abcdef-publish-") for group in groups)
    assert len(set(groups)) == len(groups)


def test_older_checkpoints_keep_what_newer_ones_have_published(tmp_path: Path) -> None:
    """Checkpoint 2 can't be read: the job goes back to 1, whose open part 2 had published."""
    plan = sink_plan(file_sink(tmp_path, NEVER))
    sinks = make(plan)
    seal(sinks, plan, [1])
    first = take(sinks, 1)
    complete(sinks, 1)
    seal(sinks, plan, [2], final=True)
    second = take(sinks, 2)
    keep(sinks, lambda: [first, second])
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]
    sinks.restore(first)
    assert rows_in(tmp_path) == []
    seal(sinks, plan, [2], final=True)
    take(sinks, 3)
    keep(sinks, list)
    complete(sinks, 3)
    assert rows_in(tmp_path) == ["1", "2"]
    assert staged_files(tmp_path) == []
