"""Drivers that die, fail, are paused and come back, in any order: every row is there once.

Writing and publishing happen when the test says so, in whatever order, or never: no threads, no Spark. The files are
real. A driver that dies is dropped; the next one has what is on disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.checkpoint.lookup import list_job
from beadline.connectors.files import RollingPolicy, pieces, renaming
from beadline.errors import BeadlineError
from beadline.master.snapshots import sinks
from tests.master.snapshots.stages import Driver, rows_in, staged_files

POLICIES = {
    "at checkpoints": RollingPolicy(on_checkpoint=True),
    "at once": RollingPolicy(part_size=1),
    "now and then": RollingPolicy(part_size=12, rollover_ms=10**9, inactivity_ms=10**9),
    "at the end": RollingPolicy(),
}


class PowerCut(BaseException):
    pass


class Promise(Future[Any]):
    """Who waits for it has it done."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__()
        self.act = act

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self.act()
        return super().result(0)


class Later:
    """Keeps what it is asked to do until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Promise, Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future = Promise(lambda: self.run(next(i for i, entry in enumerate(self.waiting) if entry[0] is future)))
        if function is int:  # somebody waits for all that came before
            while self.waiting:
                self.run(0)
            future.set_result(0)
        else:
            self.waiting.append((future, function, args))
        return future

    def run(self, which: int) -> None:
        if self.waiting:
            future, function, args = self.waiting.pop(which % len(self.waiting))
            function(*args)
            future.set_result(None)

    def shutdown(self, wait: bool = True) -> None:
        pass


class SlowDriver(Driver):
    def make_threads(self) -> tuple[Any, Any]:
        return Later(), Later()

    def write(self, which: int) -> None:
        self.threads[0].run(which)

    def publish(self) -> None:
        self.threads[1].run(0)

    def hear(self) -> None:
        if not self.inbox.empty():
            self.handle(self.inbox.get())

    def finish(self) -> None:
        """Write, hear and publish all there is."""
        while self.threads[0].waiting or self.threads[1].waiting or not self.inbox.empty():
            self.write(0)
            self.hear()
            self.publish()

    def tick(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.checkpoints.tick()


def cut(after: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which the power cut ends at one of its calls: before it has done anything, or behind it."""
    left = [after]

    def cutting(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise PowerCut
        result = function(*args, **kwargs)
        left[0] -= 1
        if left[0] == 0:
            raise PowerCut
        return result

    return cutting


class World:
    """A folder, the driver that has the job, and one that had it."""

    def __init__(self, folder: Path, policy: RollingPolicy, **options: Any) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.policy = policy
        self.options = {"timeout_ms": 100_000, **options}
        self.taken: list[str] = []
        self.zombie: SlowDriver | None = None
        self.driver = self.start(None)
        if not self.driver.settings.exactly_once:
            # Without any checkpoint the job begins anew, beside what it has shown: at least once.
            self.driver.step(1)
            self.driver.tick(1000)
            self.driver.finish()

    def start(self, path: str | None) -> SlowDriver:
        return SlowDriver(self.folder, self.policy, restore_path=path, **self.options)

    def resume(self, path: str | None = None) -> None:
        self.zombie = self.driver
        self.zombie.lease.let_go()  # for all that the next one can see it is dead
        self.driver = self.start(path or ("latest" if self.on_disk() else None))
        self.check()

    def on_disk(self) -> list[str]:
        jobs = sorted((self.folder / "checkpoints").glob("*"))
        return [listed.pointer for job in jobs for listed in list_job(str(job)) if listed.snapshot is not None]

    def check(self) -> None:
        assert self.driver.counts() == self.driver.expected_counts()
        rows = self.taken + rows_in(self.out)
        assert len(set(rows)) == len(rows), "nothing twice, at no time"
        for pointer in self.driver.checkpoints.pointers.values():
            assert self.driver.home.storage.verify(self.driver.home.storage.read(pointer)) == []

    def do(self, action: tuple[str, int]) -> None:
        name, number = action
        driver = self.driver
        match name:
            case "step":
                driver.step(number)
            case "tick":
                driver.tick(1000)
            case "time out":
                driver.tick(100_000)
            case "write":
                driver.write(number)
            case "hear":
                driver.hear()
            case "publish":
                driver.publish()
            case "merge":
                driver.merge_all()
            case "fail":
                driver.go_back()
            case "checkpoint":
                driver.step(number)
                driver.tick(1000)
                driver.finish()
            case "take":
                driver.step(number)
                driver.tick(1000)
            case "complete":  # and nothing is published yet
                if not driver.threads[0].waiting:
                    driver.step(number)
                    driver.tick(1000)
                driver.write(0)
                driver.hear()
            case "crash":
                self.resume()
            case "go back far":  # -s chk-N, and not the newest one
                pointers = driver.checkpoints.pointers
                if pointers:
                    self.resume(pointers[min(pointers)])
            case "damage":
                found = sorted(driver.checkpoints.pointers.items())
                if len(found) > 1:
                    path = Path(found[-1][1], "_metadata")
                    path.write_bytes(path.read_bytes()[:-1])
                    self.resume()
            case "crash in publishing":
                self._crash_in(renaming, ("rename", "sync")[number % 2], number + 1, driver.publish)
            case "crash in pre-committing":
                self._crash_in(renaming, "_write", number + 1, lambda: driver.write(0))
            case "consume":
                self.taken += rows_in(self.out)
                for path in self.out.rglob("part-*"):
                    path.unlink()
            case "crash in writing":
                self._crash_in(os, "rename", number + 1, lambda: driver.write(0))
            case "crash in restoring":
                self._crash_in(*((os, "unlink") if number % 2 else (renaming, "rename")), number + 1, driver.go_back)
            case "zombie":
                self._zombie_acts(number)

    def _crash_in(self, module: Any, name: str, after: int, act: Callable[[], Any]) -> None:
        try:
            with mock.patch.object(module, name, cut(after, getattr(module, name))):
                act()
        except PowerCut:
            self.resume()

    def _zombie_acts(self, number: int) -> None:
        """The driver that was thought dead was only paused. It may meet its end in any way."""
        zombie = self.zombie
        if zombie is None:
            return
        acts: list[Callable[[], Any]] = [
            lambda: zombie.step(1),
            lambda: zombie.tick(1000),
            lambda: zombie.write(0),
            zombie.hear,
            zombie.publish,
            zombie.finish,
            zombie.go_back,
        ]
        try:
            acts[number % len(acts)]()
        except (BeadlineError, OSError, FileNotFoundError):
            self.zombie = None


numbers = st.integers(0, 6)
small = ["write", "hear", "tick", "merge", "time out", "zombie"]
crashes = [
    "crash",
    "fail",
    "crash in publishing",
    "crash in pre-committing",
    "crash in writing",
    "crash in restoring",
]


def actions_with(*more: str) -> st.SearchStrategy[tuple[str, int]]:
    return st.one_of(
        st.tuples(st.sampled_from(["step", "take"]), st.integers(0, 4)),
        st.tuples(st.sampled_from(["take", "complete", "publish", "checkpoint"]), numbers),
        st.tuples(st.sampled_from(["take", "complete", "publish", "checkpoint"]), numbers),
        st.tuples(st.sampled_from(small), numbers),
        st.tuples(st.sampled_from([*crashes, *more]), numbers),
    )


actions = actions_with("go back far", "damage")
# Who goes back beyond what was published can't take back what a consumer has.
with_a_consumer = st.one_of(actions_with(), st.just(("consume", 0)))


any_world = {
    "policy": st.sampled_from(sorted(POLICIES)),
    "inline": st.sampled_from([0, 3, 1 << 16]),
    "retained": st.integers(1, 3),
    "max_concurrent": st.integers(1, 2),
    "warm": st.integers(0, 3),
}


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(actions, min_size=4, max_size=25), exactly_once=st.booleans(), **any_world)
def test_every_row_is_there_once(acts: list[tuple[str, int]], **world: Any) -> None:
    play(acts, **world)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(with_a_consumer, min_size=4, max_size=25), **any_world)
def test_every_row_is_consumed_once(acts: list[tuple[str, int]], **world: Any) -> None:
    play(acts, exactly_once=True, **world)


def play(
    acts: list[tuple[str, int]],
    policy: str,
    inline: int,
    retained: int,
    max_concurrent: int,
    exactly_once: bool,
    warm: int,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(os, "fsync"),  # processes die here, not machines
        mock.patch.object(pieces, "_INLINE", inline),
        mock.patch.object(sinks, "_LIGHT", inline - 1),
    ):
        world = World(
            Path(folder),
            POLICIES[policy],
            retained=retained,
            max_concurrent=max_concurrent,
            exactly_once=exactly_once,
        )
        for act in [("checkpoint", 2)] * warm + acts:
            world.do(act)
            world.check()
        driver = world.driver
        driver.step(2, final=True)
        driver.finish()
        assert sorted(world.taken + rows_in(world.out)) == sorted(str(number) for number in range(driver.offset))
        assert driver.checkpoints.may_end
        assert driver.counts() == driver.expected_counts()
        # When nobody can go back any more, nothing is left of all the attempts.
        driver.sinks.retained = list
        driver.sinks.tidy(idle=True)
        mine = f".staging-{driver.plan.nodes[max(driver.plan.nodes)].spec.sink.run}"
        assert not [path for path in staged_files(world.out) if mine in path]


def test_the_simulation_can_fail() -> None:
    """A sink that forgets what is being published loses rows, and the simulation sees it."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), POLICIES["at checkpoints"])
        for act in [("step", 2), ("tick", 0), ("write", 0), ("hear", 0)]:
            world.do(act)
        world.driver.sinks._outputs.clear()  # as if it were visible
        for act in [("step", 2), ("tick", 0), ("write", 0), ("hear", 0), ("crash", 0)]:
            world.do(act)
        world.driver.step(1, final=True)
        world.driver.finish()
        assert rows_in(world.out) == ["2", "3", "4"]
