"""Drivers that die, fail, are paused and come back, at any point: every row is there once, with the right count.

Each driver is a process of its own that runs the shipped job master, and dies by SIGKILL where the test says.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xxhash

from beadline.checkpoint.directory.lookup import list_job, read_snapshot
from beadline.checkpoint.storage.durable import verify
from beadline.connectors.files import RollingPolicy
from tests.master.snapshots import drivers
from tests.master.snapshots.drivers import FAILED, FENCED, FILES, FINISHED_BEFORE, KILLED, POINTS, REFUSED, Drive, Trap
from tests.master.snapshots.local_jobs import rows, rows_in, staged_files
from tests.nightly import NIGHTLY, pairs, seeds

POLICIES = {
    "at checkpoints": RollingPolicy(on_checkpoint=True),
    "at once": RollingPolicy(part_size=1),
    "now and then": RollingPolicy(part_size=30, rollover_ms=10**9, inactivity_ms=10**9),
    "at the end": RollingPolicy(),
}
RESTORING = (
    "migrating",
    "making the snapshot the truth",
    "leaving newer checkpoints",
    "restoring sinks",
    "taking output back",
    "dropping orphans",
)
SAVING = ("making output portable", "writing a savepoint", "the savepoint's appearance", "noting the stop")


class World:
    """A folder, and the drivers that come one after the other."""

    def __init__(self, folder: Path, **drive: Any) -> None:
        self.drive = Drive(folder, **drive)
        self.folder = folder
        self.exactly_once = self.drive.checkpoints.get("exactly_once", True)
        self.went_back = False

    def on_disk(self) -> list[str]:
        """The completed checkpoints that count, newest first."""
        jobs = sorted((self.folder / "checkpoints").glob("*"))
        return [listed.pointer for job in jobs for listed in list_job(str(job)) if listed.snapshot is not None]

    @property
    def finished(self) -> list[str]:
        """The ids of the jobs that have noted their finish."""
        return [path.parent.name for path in (self.folder / "checkpoints").glob("*/ended")]

    def start(self, *traps: Trap, path: str | None = None) -> Any:
        """A driver that goes on from what is there."""
        resumable = self.on_disk() or self.finished
        if not resumable and not self.exactly_once:
            for part in (self.folder / "out").glob("part-*"):
                part.unlink()  # nothing was promised of it
        return drivers.start(replace(self.drive, traps=traps, path=path or ("latest" if resumable else None)))

    def run(self, *traps: Trap, path: str | None = None) -> int:
        code = drivers.ended(self.start(*traps, path=path))
        assert code in (KILLED, 0, FAILED, FINISHED_BEFORE, REFUSED)
        self.check()
        return code

    def seen(self) -> list[str]:
        return sorted(rows_in(self.folder / "taken") + rows_in(self.folder / "out"))

    def check(self) -> None:
        seen, found = self.seen(), self.on_disk()
        assert len(set(seen)) == len(seen), "nothing twice, at no time"
        if self.exactly_once and not self.went_back and not self.finished:
            held = read_snapshot(found[0]).counters["records"] if found else 0
            assert set(seen) <= set(rows(held)), "nothing that may come again"
        for pointer in found:
            if Path(pointer).parent.name not in self.finished:  # else it clears up, and died over it
                assert verify(read_snapshot(pointer)) == []

    def _staging_of_others(self) -> list[str]:
        """Where jobs have staged that have not finished."""
        records = [
            path for path in (self.folder / "checkpoints").glob("*/driver-*") if path.parent.name not in self.finished
        ]
        lineages = [json.loads(path.read_text())["lineage"] for path in records]
        return [f".staging-{xxhash.xxh3_128_hexdigest(f'{name}|sink'.encode())}/" for name in lineages]

    def finish(self) -> int:
        """The last driver comes to the end, and everything is there."""
        code = self.run()
        assert code in (0, FINISHED_BEFORE)
        assert self.seen() == rows(self.drive.records)
        if code == 0:  # and did not die while it cleared up
            assert self.on_disk() == [], "nobody can go back, so nothing is left of all the executions"
            theirs = self._staging_of_others()
            assert not [path for path in staged_files(self.folder / "out") if not any(name in path for name in theirs)]
        return code


# -- every point


ALL_POINTS = [f"{side} {name}" for name in POINTS for side in ("before", "after")]
# Here a driver comes once, or the first time is the one that matters.
ONCE = (*RESTORING, "taking the lease", "noting the finish", "closing", "releasing the lease", "removing the folder")


_CONSUMES = {False: "files stay", True: "files are taken away"}
_FROM_SAVEPOINT = {False: "latest", True: "the savepoint"}


def name_of(point: str) -> str:
    return point.split(" ", 1)[1]


def consumed_or_not(name: str, points: Iterable[Any]) -> Any:
    """Tests for points, where files stay or are taken away."""
    chosen = pairs(points, [False, True])
    return pytest.mark.parametrize((name, "consumes"), chosen, ids=[f"{p}-{_CONSUMES[taken]}" for p, taken in chosen])


@consumed_or_not("point", [point for point in ALL_POINTS if name_of(point) not in SAVING])
def test_a_death_at_any_point(point: str, consumes: bool, tmp_path: Path) -> None:
    policy = POLICIES["at checkpoints" if consumes else "at once"]
    world = World(tmp_path, consumes=consumes, inline=0, policy=policy)
    if name_of(point) in RESTORING:
        assert world.run(Trap("before telling sources", 3)) == KILLED
    assert world.run(Trap(point, 1 if name_of(point).startswith(ONCE) else 2)) == KILLED
    world.finish()


@consumed_or_not("point", [f"{side} {name}" for name in RESTORING for side in ("before", "after")])
def test_a_restart_that_comes_to_nothing(point: str, consumes: bool, tmp_path: Path) -> None:
    """The job goes back by itself, and its driver dies meanwhile; or going back fails too, and is done again."""
    world = World(tmp_path, consumes=consumes)
    fails = Trap("before telling sources", 3, "fail")
    assert world.run(fails, Trap(point, 1)) == KILLED
    assert world.run(Trap("after sealing", 2, "fail"), Trap(point, 2, "fail")) == 0
    world.finish()


@consumed_or_not(
    "point",
    [
        "before running a step",
        "after sealing",
        "after taking",
        "before pre-committing",
        "after pre-committing",
        "before the checkpoint's appearance",
        "after the checkpoint's appearance",
        "before hearing of it",
        "after hearing of it",
        "after telling sources",
        "before discarding",
        "after discarding",
    ],
)
def test_a_death_while_earlier_output_is_not_visible_yet(point: str, consumes: bool, tmp_path: Path) -> None:
    """Publishing hangs, or has done half of its work, and checkpoints go on."""
    for held, policy in (("before publishing", "at once"), ("after publishing a part", "at checkpoints")):
        world = World(tmp_path / held, consumes=consumes, policy=POLICIES[policy])
        assert world.run(Trap(held, 1, "hold"), Trap(point, 3)) == KILLED
        assert world.run(Trap(point)) in (KILLED, 0)
        world.finish()


@consumed_or_not("number", range(1, 160, 7 if NIGHTLY else 13))
def test_a_death_before_any_change_to_files(number: int, consumes: bool, tmp_path: Path) -> None:
    world = World(tmp_path, consumes=consumes, policy=POLICIES["at the end"], checkpoints={"inline_threshold": 0})
    for _ in range(2):
        assert world.run(Trap(FILES, number)) in (KILLED, 0, FINISHED_BEFORE)
    world.finish()


# -- a savepoint to stop with


SAVED = "after the savepoint's appearance"
STOPPING = [
    *(Trap(f"{side} {name}") for name in SAVING for side in ("before", "after")),
    *(Trap(FILES, number, since="before making output portable") for number in range(1, 16, 2)),
    *(
        Trap(point, since=SAVED)
        for point in (
            "before completing",
            "after completing",
            "before publishing",
            "before a part's appearance",
            "after a part's appearance",
            "after publishing a part",
            "before noting what is visible",
            "after noting what is visible",
            "before noting the finish",
            "after noting the finish",
            "before closing checkpoints",
            "after closing checkpoints",
            "before closing sinks",
            "after closing sinks",
            "before closing the home",
            "after closing the home",
            "after removing the folder",
        )
    ),
]


@pytest.mark.parametrize(
    ("trap", "from_savepoint"),
    pairs(STOPPING, [False, True]),
    ids=lambda given: f"{given.at} {given.nth}" if isinstance(given, Trap) else _FROM_SAVEPOINT[given],
)
def test_a_death_while_the_job_stops_with_a_savepoint(trap: Trap, from_savepoint: bool, tmp_path: Path) -> None:
    world = World(tmp_path, consumes=from_savepoint)
    world.drive, world.went_back = replace(world.drive, stop=16), True  # the savepoint holds more
    assert world.run(trap) == KILLED
    world.drive = replace(world.drive, stop=None)
    found = [str(path.parent) for path in (tmp_path / "savepoints").glob("savepoint-*/_metadata")]
    if found and from_savepoint:
        assert world.run(Trap("after restoring sinks"), path=found[0]) == KILLED
        assert world.run(path=found[0]) == 0
    elif world.finished:  # it was stopped: nobody goes back behind that
        code = world.run()
        if code == FINISHED_BEFORE:
            assert world.seen() == rows(16)
            return
        assert code == REFUSED
        assert f"-s {found[0]}" in (tmp_path / "refusal").read_text()
        assert world.run(path=found[0]) == 0
    else:
        assert world.run() == 0
    assert world.seen() == rows(world.drive.records)


# -- drivers that were only paused

PAUSED = {
    point: (Trap(point, 3, "pause"),)
    for point in (
        "after running a step",
        "before pre-committing",
        "before writing",
        "before the checkpoint's appearance",
        "after the checkpoint's appearance",
        "before hearing of it",
        "before publishing",
        "after publishing a part",
        "before noting what is visible",
        "before discarding",
    )
}
# It goes back, from before a checkpoint that it has not heard of, and has looked at its lease.
UNHEARD = Trap("before hearing of it", 3, "fail")
PAUSED["before leaving newer checkpoints"] = (UNHEARD, Trap("before leaving newer checkpoints", 1, "pause"))
PAUSED["before restoring sinks"] = (UNHEARD, Trap("before restoring sinks", 1, "pause"))
# Where the driver is that takes over, when the paused one wakes up.
NEXT_ONES = ("before restoring sinks", "before publishing", "after writing")


@pytest.mark.parametrize(("point", "next_one"), pairs(PAUSED, NEXT_ONES))
def test_a_driver_that_was_taken_for_dead(point: str, next_one: str, tmp_path: Path) -> None:
    world = World(tmp_path, consumes=next_one == "before publishing")
    take_for_dead(world, point, next_one)
    world.check()
    assert world.seen() == rows(world.drive.records)


def take_for_dead(world: World, point: str, next_one: str) -> None:
    """A driver is paused, another one takes over its job, and it wakes up in the middle of that."""
    zombie = other = world.start(*PAUSED[point])
    try:
        drivers.paused(zombie, world.folder)
        (folder,) = (world.folder / "checkpoints").glob("*")
        other = world.start(Trap(next_one, 1, "pause"), path=str(folder))
        drivers.paused(other, world.folder)
        drivers.go_on(zombie)
        assert drivers.ended(zombie) == FENCED
        drivers.go_on(other)
        assert drivers.ended(other) == 0
    finally:
        zombie.kill()
        other.kill()


# -- anything


def a_life(dice: random.Random) -> list[Trap]:
    """A driver that is likely to die, and that may have met other trouble before."""
    points = [point for point in ALL_POINTS if name_of(point) not in SAVING]
    traps = [Trap(dice.choice(points), dice.randint(1, 6))]
    if dice.random() < 0.3:
        traps = [Trap(FILES, dice.randint(1, 150))]
    if dice.random() < 0.5:
        traps.append(Trap(dice.choice(points), dice.randint(1, 4), "fail"))
    if dice.random() < 0.3:
        held = dice.choice(
            ["before publishing", "before a part's appearance", "before writing", "before hearing of it"]
        )
        traps.append(Trap(held, dice.randint(1, 3), "slow"))
    return traps


@pytest.mark.parametrize("seed", seeds(16, 80))
def test_any_drivers_with_any_troubles(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    consumes = dice.random() < 0.5
    checkpoints: dict[str, Any] = {
        "retained": dice.randint(1, 3),
        "max_concurrent": dice.randint(1, 2),
        "inline_threshold": dice.choice([0, 20 << 10]),
        # What is shown at once can't be taken back from a consumer.
        "exactly_once": consumes or dice.random() < 0.7,
    }
    world = World(
        tmp_path,
        policy=POLICIES[dice.choice(sorted(POLICIES))],
        parallelism=dice.randint(1, 2),
        awaits=dice.random() < 0.7,
        inline=dice.choice([0, 3, 1 << 16]),
        consumes=consumes,
        checkpoints=checkpoints,
    )
    for _ in range(dice.randint(1, 3)):
        path = None
        found = world.on_disk()
        if len(found) > 1 and not consumes and dice.random() < 0.4:
            world.went_back = True
            if dice.random() < 0.5:
                path = found[-1]  # -s chk-N, and not the newest one
            else:
                newest = Path(found[0], "_metadata")
                newest.write_bytes(newest.read_bytes()[:-1])
        world.run(*a_life(dice), path=path)
    world.finish()


def test_these_tests_can_fail(tmp_path: Path) -> None:
    """A sink that forgets what is being published loses rows, and they see it."""
    world = World(tmp_path, forgets=True)
    assert world.run(Trap("before publishing", 1, "hold"), Trap("after telling sources", 3)) == KILLED
    with pytest.raises(AssertionError):
        world.finish()
    assert world.run() == FINISHED_BEFORE
    assert set(world.seen()) < set(rows(world.drive.records))
