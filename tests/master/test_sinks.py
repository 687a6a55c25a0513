"""Rows become visible once, whatever becomes of checkpoints, attempts and drivers in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.lease import Fenced
from beadline.checkpoint.metadata import from_plain, to_plain
from beadline.connectors import row_files
from beadline.connectors.row_files import RollingPolicy
from beadline.graph.plan import Plan
from beadline.master.sinks import Sinks
from tests.master.stages import TwiceCluster, file_sink, rows_in, sink_plan, staged, staged_files

AT_ONCE = RollingPolicy(part_size=1)
NEVER = RollingPolicy()


@pytest.fixture(autouse=True, params=["inline", "in files"])
def _inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in files":
        monkeypatch.setattr(row_files, "_INLINE", 0)


def make(plan: Plan, with_checkpoints: bool = True, **more: Any) -> Sinks:
    cluster: Any = TwiceCluster()
    return Sinks(plan, cluster, "group", "0123456789abcdef", with_checkpoints, **more)


def seal(sinks: Sinks, plan: Plan, rows: list[Any], final: bool = False, now: int = 0) -> None:
    sinks.sealed([staged(plan, rows)], now, final)


def complete(sinks: Sinks, number: int) -> None:
    sinks.publish(sinks.completed(number))
    sinks.published(number)


def stored(data: Any) -> Any:
    """As a checkpoint gives it back."""
    return {uid: from_plain(to_plain(held, uid)) for uid, held in data.items()}


def test_output_waits_for_its_checkpoint(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    sinks.take(1)
    seal(sinks, plan, [2])
    sinks.take(2)
    assert rows_in(tmp_path) == []
    complete(sinks, 1)
    assert rows_in(tmp_path) == ["1"]
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]
    assert staged_files(tmp_path) == [], "nobody goes back to these checkpoints here"


def test_output_of_a_checkpoint_that_was_given_up_goes_with_the_next(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    sinks.take(1)
    seal(sinks, plan, [2])
    data = sinks.take(2)
    assert len(data["sink"]["committables"]) == 2
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]
    assert sinks.take(3)["sink"]["committables"] == []


def test_what_is_not_visible_yet_is_in_the_next_checkpoint_too(tmp_path: Path) -> None:
    """The next may complete, and be restored, before the first one's output is published."""
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    sinks.take(1)
    ready = sinks.completed(1)
    seal(sinks, plan, [2])
    data = stored(sinks.take(2))
    assert sinks.completed(2) != ready
    again = make(plan)
    again.restore(data)  # nothing was published before the driver died
    assert rows_in(tmp_path) == ["1", "2"]


def test_a_savepoint_holds_rows_and_publishes_none(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    data = stored(sinks.take(1, commits=False))
    assert data["sink"]["committables"] == []
    assert len(data["sink"]["staged"]["parts"]) == 1
    seal(sinks, plan, [2])
    sinks.take(2)
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]


def test_at_least_once_does_not_wait_for_a_checkpoint_at_the_end(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan, with_checkpoints=False)
    seal(sinks, plan, [1])
    sinks.take(1)  # and is given up
    assert rows_in(tmp_path) == []
    seal(sinks, plan, [2], final=True)
    assert rows_in(tmp_path) == ["1", "2"]


def test_the_end_publishes_what_no_policy_found_full(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path, NEVER))
    sinks = make(plan)
    seal(sinks, plan, [1])
    assert sinks.take(1)["sink"]["committables"] == []
    complete(sinks, 1)
    assert rows_in(tmp_path) == []
    seal(sinks, plan, [2], final=True)
    sinks.take(2)
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]


@pytest.mark.parametrize("policy", [AT_ONCE, NEVER, RollingPolicy(on_checkpoint=True)])
def test_going_back_publishes_again_and_takes_later_rows_away(policy: RollingPolicy, tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path, policy))
    sinks = make(plan)
    seal(sinks, plan, [1])
    data = stored(sinks.take(1))
    sinks.retained = lambda: [data]
    complete(sinks, 1)
    seal(sinks, plan, [2])
    sinks.take(2)
    complete(sinks, 2)
    sinks.restore(data)
    assert rows_in(tmp_path) == ([] if policy is NEVER else ["1"])
    seal(sinks, plan, ["2 again"], final=True)
    sinks.take(3)
    complete(sinks, 3)
    assert rows_in(tmp_path) == ["1", "2 again"]


@pytest.mark.parametrize("policy", [AT_ONCE, RollingPolicy(rollover_ms=15)])
def test_at_least_once_publishes_when_a_step_is_sealed(policy: RollingPolicy, tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path, policy))
    sinks = make(plan, with_checkpoints=False)
    seal(sinks, plan, [1], now=0)
    seal(sinks, plan, [2], now=10)
    data = stored(sinks.take(1))
    sinks.retained = lambda: [data]
    seal(sinks, plan, [3], now=20)
    assert rows_in(tmp_path) == ["1", "2", "3"]
    sinks.restore(data)
    assert rows_in(tmp_path) == (["1", "2"] if policy is AT_ONCE else [])
    seal(sinks, plan, [3], final=True, now=20)
    assert rows_in(tmp_path) == ["1", "2", "3"], "what the checkpoint held back is still there"


def test_without_a_checkpoint_the_lease_is_looked_at_before_publishing(tmp_path: Path) -> None:
    """A driver that was paused and lost its job would take the names that the new one uses."""

    def fenced() -> None:
        raise Fenced("folder", 1, 2, "another", "now")

    plan = sink_plan(file_sink(tmp_path, AT_ONCE))
    sinks = make(plan, with_checkpoints=False, check=fenced)
    with pytest.raises(Fenced):
        seal(sinks, plan, [1])
    assert rows_in(tmp_path) == []


def test_a_sink_that_the_checkpoint_does_not_know_begins_anew(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path / "one"), file_sink(tmp_path / "two"))
    sinks = make(plan)
    sinks.sealed([staged(plan, [1]), staged(plan, [1], "second")], 0, False)
    data = {"sink": stored(sinks.take(1))["sink"]}
    complete(sinks, 1)
    sinks.sealed([staged(plan, [2]), staged(plan, [2], "second")], 0, False)
    sinks.restore(data)
    assert (rows_in(tmp_path / "one"), rows_in(tmp_path / "two")) == (["1"], [])
    sinks.sealed([staged(plan, [3]), staged(plan, [3], "second")], 0, True)
    sinks.take(2)
    complete(sinks, 2)
    assert (rows_in(tmp_path / "one"), rows_in(tmp_path / "two")) == (["1", "3"], ["3"])


def test_two_sinks_may_write_to_one_folder(tmp_path: Path) -> None:
    plan = sink_plan(file_sink(tmp_path), file_sink(tmp_path))
    sinks = make(plan)
    for number in (1, 2):
        sinks.sealed([staged(plan, [f"a{number}"]), staged(plan, [f"b{number}"], "second")], 0, False)
        data = stored(sinks.take(number))
        complete(sinks, number)
    assert rows_in(tmp_path) == ["a1", "a2", "b1", "b2"]
    sinks.restore(data)
    assert rows_in(tmp_path) == ["a1", "a2", "b1", "b2"], "one does not take the other's rows for later ones"


def test_publishing_has_a_job_group_of_its_own(tmp_path: Path) -> None:
    """A step that is run again cancels the Spark jobs of its group."""
    plan = sink_plan(file_sink(tmp_path))
    sinks = make(plan)
    seal(sinks, plan, [1])
    sinks.take(1)
    complete(sinks, 1)
    cluster: Any = sinks._cluster
    assert set(cluster.groups) == {"group-publish"}


def test_older_checkpoints_keep_what_newer_ones_have_published(tmp_path: Path) -> None:
    """Checkpoint 2 can't be read: the job goes back to 1, whose open part 2 had published."""
    plan = sink_plan(file_sink(tmp_path, NEVER))
    sinks = make(plan)
    seal(sinks, plan, [1])
    first = stored(sinks.take(1))
    complete(sinks, 1)
    seal(sinks, plan, [2], final=True)
    second = stored(sinks.take(2))
    sinks.retained = lambda: [first, second]
    complete(sinks, 2)
    assert rows_in(tmp_path) == ["1", "2"]
    sinks.restore(first)
    assert rows_in(tmp_path) == []
    seal(sinks, plan, [2], final=True)
    sinks.take(3)
    sinks.retained = list
    complete(sinks, 3)
    assert rows_in(tmp_path) == ["1", "2"]
    assert staged_files(tmp_path) == []


# -- crashes

POLICIES = {"at checkpoints": RollingPolicy(on_checkpoint=True), "full at once": AT_ONCE, "at the end": NEVER}
CRASHES = (
    "before take",
    "taken",
    "durable",
    "written",
    "half published",
    "published",
    "told",
    "next step",
    "next taken",
    "next written",
    "never",
)


class Power:
    """Cut at one point."""

    def __init__(self, at: str) -> None:
        self._at = at

    def passes(self, point: str) -> None:
        if point == self._at:
            raise PowerCut


class PowerCut(BaseException):
    pass


def drive(sinks: Sinks, plan: Plan, disk: dict[str, Any], power: Power) -> None:
    """Rows 0, 1, 2, …: a checkpoint after every second row; ``disk`` has the newest completed one."""
    position = disk.get("position", 0)
    number = disk.get("number", 0)
    pending: list[tuple[int, list[tuple[str, Any]]]] = []
    while position < 8:
        seal(sinks, plan, [position], final=position == 7)
        position += 1
        power.passes("next step" if pending else "")
        if position % 2:
            continue
        power.passes("before take")
        number += 1
        data = sinks.take(number)
        power.passes("taken" if not pending else "next taken")
        sinks.make_durable(data)
        power.passes("durable")
        disk.update(position=position, number=number, data=stored(data))
        sinks.retained = lambda: [disk["data"]]
        power.passes("written" if not pending else "next written")
        pending.append((number, sinks.completed(number)))
        # Publishing is one checkpoint behind, until the end.
        while len(pending) > (0 if position == 8 else 1):
            done, ready = pending.pop(0)
            sinks.publish(ready[:1])
            power.passes("half published")
            sinks.publish(ready)
            power.passes("published")
            sinks.published(done)
            power.passes("told")


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("second", CRASHES)
@pytest.mark.parametrize("first", CRASHES)
def test_a_crash_at_any_point_gives_every_row_once(
    first: str, second: str, policy: RollingPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the process dies here, not the machine
    disk: dict[str, Any] = {}
    crashes = 0
    for point in (first, second, "never"):
        plan = sink_plan(file_sink(tmp_path, policy))
        sinks = make(plan)
        sinks.retained = lambda: [disk["data"]] if "data" in disk else []
        sinks.restore(disk.get("data", {}))
        seen = rows_in(tmp_path)
        assert len(set(seen)) == len(seen), "nothing twice, at no time"
        assert set(seen) <= {str(row) for row in range(disk.get("position", 0))}, "nothing that may come again"
        try:
            drive(sinks, plan, disk, Power(point))
        except PowerCut:
            crashes += 1
    assert crashes >= (first != "never")
    assert rows_in(tmp_path) == [str(row) for row in range(8)]
    sinks.retained = list
    sinks.tidy(idle=True)
    assert staged_files(tmp_path) == []
    assert not [name for name in os.listdir(tmp_path) if "inprogress" in name]
