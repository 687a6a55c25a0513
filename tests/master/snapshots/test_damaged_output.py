"""Output that is staged is part of a checkpoint: if it is damaged, the checkpoint before it is restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.checkpoint.storage.durable import all_files, verify
from beadline.connectors.files import RollingPolicy, pieces
from beadline.errors import JobExecutionError
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in, staged_files

RETAIN: dict[str, Any] = {"retention": Retention.RETAIN_ON_CANCELLATION, "retained": 2}


@pytest.fixture(autouse=True)
def _in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)


def open_parts(folder: Path, **more: Any) -> LocalJob:
    """A job whose parts stay open until it ends."""
    return LocalJob(folder, RollingPolicy(), **{**RETAIN, **more})


def two_checkpoints(job: LocalJob) -> tuple[list[str], str]:
    """Takes two, and gives them, and the piece that only the newer one names."""
    job.step()
    pointers = [job.checkpoint()]
    job.step()
    pointers.append(job.checkpoint())
    older, newer = (all_files(read_snapshot(pointer)) for pointer in pointers)
    (piece,) = [path for path in newer - older if ".staging-" in path]
    return pointers, piece


def damage(path: str, how: str) -> None:
    if how == "missing":
        Path(path).unlink()
    else:
        content = Path(path).read_text()
        Path(path).write_text(content.replace(":", "X", 1) if how == "altered" else content[:-1])


DAMAGE = pytest.mark.parametrize("how", ["altered", "cut", "missing"])


@DAMAGE
def test_a_job_that_fails_goes_further_back(how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = open_parts(tmp_path)
    _, piece = two_checkpoints(job)
    damage(piece, how)
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.step()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)
    assert f"checkpoint 2 can't be restored, so the one before it is tried: {piece}" in caplog.text


@DAMAGE
def test_a_job_that_is_resumed_goes_further_back(how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = open_parts(tmp_path)
    pointers, piece = two_checkpoints(job)
    job.cancel()
    damage(piece, how)
    resumed = open_parts(tmp_path, given=9, restore_path="latest")
    resumed.sealed()
    assert resumed.home.pointer == pointers[0]
    assert f"{pointers[1]} can't be used, so the one before it is tried: {piece}" in caplog.text
    assert resumed.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)


@DAMAGE
def test_a_checkpoint_that_is_named_is_refused(how: str, tmp_path: Path) -> None:
    job = open_parts(tmp_path)
    pointers, piece = two_checkpoints(job)
    job.cancel()
    damage(piece, how)
    with pytest.raises(SnapshotError, match=piece):
        open_parts(tmp_path, given=9, restore_path=pointers[1])
    assert rows_in(job.out) == []


def test_a_file_that_is_ready_and_damaged_is_not_published(tmp_path: Path) -> None:
    """Its checkpoint is gone back behind, and its rows come again."""
    job = LocalJob(tmp_path, **RETAIN)
    job.step()
    job.checkpoint()
    job.step()
    job.engine.failures["publish"] = [OSError("not yet")]
    job.trigger().result(20)
    (ready,) = [path for path in staged_files(job.out) if "ready-" in path]
    damage(ready, "altered")
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.step()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)


def test_a_piece_that_is_damaged_while_the_job_runs_sends_it_back_at_once(tmp_path: Path) -> None:
    """However many failed checkpoints it tolerates: the next one would need the same piece."""
    job = open_parts(tmp_path)
    _, piece = two_checkpoints(job)
    damage(piece, "altered")
    assert job.finish() is End.FINISHED
    assert job.master.attempt == 2
    assert rows_in(job.out) == rows(6)


def test_verify_reads_all_that_is_staged(tmp_path: Path) -> None:
    job = open_parts(tmp_path)
    pointers, piece = two_checkpoints(job)
    job.cancel()
    newer = read_snapshot(pointers[1])
    assert verify(newer) == []
    assert len(all_files(newer)) == len(newer.files()) + 2
    damage(piece, "altered")
    (problem,) = verify(newer)
    assert problem.path == piece
    assert verify(read_snapshot(pointers[0])) == []
