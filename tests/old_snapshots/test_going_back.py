"""Jobs go back to snapshots of an earlier version, which named output by the job's id and the driver's epoch: what that
version published after the snapshot is taken back if the job goes on in its own folder, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import xxhash

from beadline.testing import TestSource
from tests.old_snapshots import job
from tests.old_snapshots.functions import LAST_STEP, RECORDS
from tests.old_snapshots.stored import Stored, snapshot_in

LATER = "published after the snapshot"


def published_later(folder: Path, path: Path) -> list[Path]:
    """Parts as the driver that took the snapshot would have published them next, and as others would have."""
    snapshot = snapshot_in(path)
    epoch = snapshot["epoch"] or 1
    runs = [xxhash.xxh3_128_hexdigest(f"{id}|told".encode())[:8] for id in (snapshot["job_id"], "somebody else")]
    parts = [folder / "out" / f"part-{run}_{e}-0-999.txt" for run in runs for e in (epoch, epoch + 7)]
    for part in parts:
        part.write_text(f"{LATER}\n")
    return parts


def start(folder: Path, path: Path, **options: Any) -> None:
    options = {
        "beadline.engine": "local",
        "execution.state-recovery.path": path,
        "execution.checkpointing.num-retained": 9,
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    job.environment(folder, options, TestSource(job.numbers(RECORDS), step=LAST_STEP)).execute("old")


@pytest.mark.parametrize("name", ["heap", "native"])
def test_what_an_earlier_version_published_since_is_taken_back_in_its_own_folder(tmp_path: Path, name: str) -> None:
    path = Stored.read(Path(__file__).parent / "by_9ff4bd6" / f"{name}.tar.gz").unpack(tmp_path)
    own, *others = published_later(tmp_path, path)
    start(tmp_path, path)
    assert own.exists() == (name == "native"), "a savepoint begins another job, which takes back nothing"
    assert all(part.exists() for part in others)


def test_a_copied_folder_of_an_earlier_version_takes_back_nothing(tmp_path: Path) -> None:
    """It is a checkpoint of another directory than the one that the job uses."""
    path = Stored.read(Path(__file__).parent / "by_9ff4bd6" / "heap.tar.gz").unpack(tmp_path)
    parts = published_later(tmp_path, path)
    start(tmp_path, path, execution_checkpointing_dir=tmp_path / "elsewhere")
    assert all(part.exists() for part in parts)
