"""Starting from a snapshot that somebody else may have written: it names files, and a job touches its own only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.checkpoint.storage.durable import verify
from beadline.connectors.files import RollingPolicy, pieces
from tests.checkpoint.snapshots import all_files
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in

RETAIN: dict[str, Any] = {"retention": Retention.RETAIN_ON_CANCELLATION}


def rewritten(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The snapshot with other data of its sink, and a checksum that is right: that is no signature."""
    snapshot = read_snapshot(str(path))
    operators = (
        each if each.committables is None else replace(each, committables=change(each.committables))
        for each in snapshot.operators
    )
    (path / "_metadata").write_bytes(metadata.encode(replace(snapshot, operators=tuple(operators)), str(path)))


def refusal(folder: Path, path: Path | str, policy: RollingPolicy | None = None) -> str:
    """Why a job that starts from there does not begin."""
    try:
        job = LocalJob(folder, policy, given=9, restore_path=str(path))
    except SnapshotError as error:
        return str(error)
    assert job.ended() is End.NEVER_BEGAN
    assert isinstance(job.master.error, SnapshotError)
    return str(job.master.error)


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    job = LocalJob(tmp_path / "theirs")
    job.step()
    path = job.savepoint(tmp_path / "savepoints")
    job.cancel()
    return path


def test_files_that_a_stranger_names_are_neither_read_nor_renamed(savepoint: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "id_rsa").write_text("PRIVATE KEY\n")
    payload = savepoint / "payload"
    payload.write_text("import os")
    secret = ["", 0, 12, None, str(home / "id_rsa")]
    for change in (
        {"committables": [{"target": str(home / "zz.pth"), "source": str(payload), "size": 9}]},
        {"staged": {"parts": [[0, 0, [secret]]], "counters": []}},
    ):
        rewritten(savepoint, lambda data, change=change: {**data, **change})  # type: ignore[misc]
        assert verify(read_snapshot(str(savepoint))) != []
        assert "no sink stages output under such a name" in refusal(tmp_path / "mine", savepoint)
    assert [path.name for path in home.iterdir()] == ["id_rsa"]
    assert rows_in(tmp_path / "mine" / "out") == []


def test_nor_if_they_are_called_as_sinks_call_theirs(savepoint: Path, tmp_path: Path) -> None:
    """The whole disk may be full of other jobs' staged files."""
    piece = tmp_path / "other" / ".staging-0" / "1" / ("a" * 32)
    piece.parent.mkdir(parents=True)
    piece.write_text("0:1\n")
    ready = piece.with_name("ready-" + "b" * 32)
    ready.write_text("0:1\n")
    before = all_files(tmp_path / "other")
    for change in (
        {"committables": [{"target": str(tmp_path / "x" / "part-01234567-0-0"), "source": str(ready), "size": 4}]},
        {"staged": {"parts": [[0, 0, [["", 0, 4, None, str(piece)]]]], "counters": []}},
    ):
        rewritten(savepoint, lambda data, change=change: {**data, **change})  # type: ignore[misc]
        why = refusal(tmp_path / "mine", savepoint)
        assert f"{savepoint} can't be restored. Output of 'sink': it names" in why
    assert all_files(tmp_path / "other") == before
    assert not (tmp_path / "x").exists()
    assert rows_in(tmp_path / "mine" / "out") == []


@pytest.mark.parametrize(
    "data", [{"staged": {"parts": 7}}, {"staged": [1]}, {"staged": {"counters": []}}, {"staged": None}, {}]
)
def test_what_no_sink_writes_is_refused_with_a_sentence(data: dict[str, Any], savepoint: Path, tmp_path: Path) -> None:
    rewritten(savepoint, lambda _: data)
    why = refusal(tmp_path / "mine", savepoint)
    assert "is not what this sink writes" in why or "is not well formed" in why


def test_a_savepoint_that_was_moved_is_still_good(savepoint: Path, tmp_path: Path) -> None:
    moved = tmp_path / "far" / "away"
    moved.parent.mkdir()
    savepoint.rename(moved)
    job = LocalJob(tmp_path / "mine", given=9, restore_path=str(moved))
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)


# -- a sink with another path


def test_a_checkpoint_whose_output_is_visible_takes_another_path(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, **RETAIN)
    job.step()
    pointer = job.checkpoint()
    job.cancel()
    moved = LocalJob(tmp_path / "new", given=9, restore_path=pointer)
    assert moved.finish() is End.FINISHED
    assert rows_in(moved.out) == rows(9, start=3)
    assert rows_in(job.out) == rows(3)


def test_one_whose_rows_are_staged_at_the_former_path_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path, RollingPolicy(), **RETAIN)
    job.step()
    pointer = job.checkpoint()
    job.cancel()
    assert "run the job with the former path, take a savepoint" in refusal(tmp_path / "new", pointer, RollingPolicy())
    former = LocalJob(tmp_path, RollingPolicy(), given=3, restore_path=pointer, **RETAIN)
    path = former.savepoint(tmp_path / "savepoints")
    former.cancel()
    moved = LocalJob(tmp_path / "new", RollingPolicy(), given=9, restore_path=str(path))
    assert moved.finish() is End.FINISHED
    assert rows_in(moved.out) == rows(9)
