"""Drivers that die while they write Parquet files, or files that become one: every row is there once.

What is made ready is another file than what was staged, and what waits to be compacted is in checkpoints. All else is
as with files of rows, see ``test_crashes``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.master.snapshots.drivers import FILES, KILLED, Trap
from tests.master.snapshots.test_crashes import World, a_life, consumed_or_not
from tests.nightly import seeds

POINTS = (
    "before pre-committing",
    "before making a part ready",
    "after making a part ready",
    "after pre-committing",
    "after the checkpoint's appearance",
    "before publishing a part",
    "after a part's appearance",
    "after publishing",
    "before discarding",
)
SINK = pytest.mark.parametrize("sink", ["parquet", "compacted"])


@SINK
@consumed_or_not("point", POINTS)
def test_a_death_at_a_point_of_a_checkpoint(point: str, sink: str, consumes: bool, tmp_path: Path) -> None:
    world = World(tmp_path, consumes=consumes, inline=0, sink=sink)
    assert world.run(Trap(point, 2)) == KILLED
    assert world.run(Trap(point, 1)) == KILLED
    world.finish()


@SINK
@pytest.mark.parametrize("number", range(5, 130, 41))
def test_a_death_before_any_change_to_files(number: int, sink: str, tmp_path: Path) -> None:
    world = World(tmp_path, sink=sink, inline=0, checkpoints={"inline_threshold": 0})
    world.run(Trap(FILES, number))
    world.finish()


@SINK
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_any_drivers_with_any_troubles(seed: int, sink: str, tmp_path: Path) -> None:
    dice = random.Random(seed)
    world = World(
        tmp_path,
        sink=sink,
        parallelism=dice.randint(1, 2),
        awaits=dice.random() < 0.7,
        inline=dice.choice([0, 300, 1 << 16]),
        consumes=dice.random() < 0.5,
        checkpoints={"retained": dice.randint(1, 3), "max_concurrent": dice.randint(1, 2)},
    )
    for _ in range(dice.randint(1, 3)):
        world.run(*a_life(dice))
    world.finish()
