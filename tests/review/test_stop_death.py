"""NOT MENDED: the driver dies when a stop has published to a system outside, and the job is resumed with -s latest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.master.snapshots.drivers import KILLED, Trap, ended, start
from tests.master.snapshots.local_jobs import rows
from tests.master.snapshots.test_outside_crashes import Outside


@pytest.mark.parametrize("from_savepoint", [False, True], ids=["latest", "the savepoint"])
def test_a_death_while_the_job_stops_with_a_savepoint(from_savepoint: bool, tmp_path: Path) -> None:
    world = Outside(tmp_path, "transactions")
    world.drive, world.went_back = replace(world.drive, stop=16), True
    assert world.run(Trap("before noting what is visible", 2)) == KILLED
    assert world.seen() == rows(16)
    world.drive = replace(world.drive, stop=None)
    (found,) = (str(path.parent) for path in (tmp_path / "savepoints").glob("savepoint-*/_metadata"))
    ended(start(replace(world.drive, path=found if from_savepoint else "latest")))
    assert world.seen() == rows(24)
