"""Drivers that die, fail and are paused while their output goes to a system outside, which takes nothing back."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.transactions.ledger import abort_all, visible
from tests.master.snapshots.drivers import FINISHED_BEFORE, KILLED, Trap
from tests.master.snapshots.local_jobs import KEYS, rows
from tests.master.snapshots.test_crashes import (
    ALL_POINTS,
    NEXT_ONES,
    ONCE,
    PAUSED,
    RESTORING,
    SAVING,
    World,
    a_life,
    name_of,
    take_for_dead,
)
from tests.nightly import NIGHTLY, pairs, seeds

KINDS = pytest.mark.parametrize("kind", ["transactions", "log"])
POINTS = [point for point in ALL_POINTS if name_of(point) not in SAVING and "part" not in point]
# Around these a log is appended to, or not; by day its drivers die here.
OF_A_LOG = ("the checkpoint's appearance", "hearing of it", "publishing", "noting what is visible", "restoring sinks")


class Outside(World):
    def __init__(self, folder: Path, kind: str, **drive: Any) -> None:
        super().__init__(folder, sink=kind, **drive)

    def seen(self) -> list[str]:
        return sorted(visible(self.folder / "out"))

    def check(self) -> None:
        super().check()
        self.check_order()

    def check_order(self) -> None:
        counts: dict[int, list[int]] = defaultdict(list)
        for row in visible(self.folder / "out"):
            number, count = map(int, row.split(":"))
            counts[number % KEYS].append(count)
        assert all(found == sorted(found) for found in counts.values()), counts

    def finish(self) -> int:
        code = super().finish()
        assert abort_all(self.folder / "out") == 0, "nothing is left open"
        if code == 0:
            for job in self.finished:
                assert not (self.folder / "checkpoints" / job / "output").exists(), "nothing is left staged"
        return code


@pytest.mark.parametrize(
    ("point", "kind"),
    [(point, "transactions") for point in POINTS]
    + [(point, "log") for point in POINTS if NIGHTLY or name_of(point) in OF_A_LOG],
)
def test_a_death_at_any_point(point: str, kind: str, tmp_path: Path) -> None:
    world = Outside(tmp_path, kind, inline=0)
    if name_of(point) in RESTORING:
        assert world.run(Trap("before telling sources", 3)) == KILLED
    assert world.run(Trap(point, 1 if name_of(point).startswith(ONCE) else 2)) == KILLED
    world.finish()


@pytest.mark.parametrize(
    ("point", "inline"),
    pairs(
        [
            "after pre-committing",
            "after the checkpoint's appearance",
            "before hearing of it",
            "before publishing",
            "before noting what is visible",
            "before discarding",
        ],
        [0, 1 << 16],
    ),
)
def test_transactions_that_were_aborted_meanwhile_lose_nothing(point: str, inline: int, tmp_path: Path) -> None:
    """The system outside gives up on open transactions while the driver is away."""
    world = Outside(tmp_path, "transactions", inline=inline)
    for _ in range(2):
        assert world.run(Trap(point, 2)) == KILLED
        abort_all(tmp_path / "out")
    world.finish()


@pytest.mark.parametrize("concurrent", [1, 3])
@pytest.mark.parametrize("aborts", [(1,), (2, 3), (2, 5, 6, 9), (1, 2, 3, 4, 5, 6, 7, 8)], ids=str)
def test_a_transaction_is_aborted_while_the_job_runs(aborts: tuple[int, ...], concurrent: int, tmp_path: Path) -> None:
    """Its rows, and the later ones of its subtask, are written again, in order."""
    checkpoints = {"max_concurrent": concurrent}
    world = Outside(tmp_path, "transactions", awaits=False, step=2, aborts=aborts, checkpoints=checkpoints)
    world.finish()


@KINDS
@pytest.mark.parametrize(("point", "next_one"), pairs([point for point in PAUSED if "part" not in point], NEXT_ONES))
def test_a_driver_that_was_taken_for_dead(point: str, next_one: str, kind: str, tmp_path: Path) -> None:
    world = Outside(tmp_path, kind)
    take_for_dead(world, point, next_one)
    assert world.seen() == rows(world.drive.records)
    world.check_order()


@KINDS
@pytest.mark.parametrize("seed", seeds(6, 30))
def test_any_drivers_with_any_troubles(seed: int, kind: str, tmp_path: Path) -> None:
    dice = random.Random(seed)
    world = Outside(
        tmp_path,
        kind,
        parallelism=dice.randint(1, 2),
        awaits=dice.random() < 0.7,
        inline=dice.choice([0, 3, 1 << 16]),
        checkpoints={"retained": dice.randint(1, 3), "max_concurrent": dice.randint(1, 2)},
    )
    for _ in range(dice.randint(1, 3)):
        code = world.run(*a_life(dice))
        if kind == "transactions" and dice.random() < 0.5 and code != FINISHED_BEFORE:
            abort_all(tmp_path / "out")
    world.finish()
