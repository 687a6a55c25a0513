"""Jobs whose drivers were killed, and what the archive says of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from beadline.checkpoint.ends import End
from beadline.master.client import registry
from beadline.web.history import Archive
from beadline.web.lost import archive_lost_jobs, record_of_lost
from tests.master.client.test_registry import FIRST, GONE, entry
from tests.master.snapshots.local_jobs import LocalJob
from tests.master.snapshots.troubles import Gate
from tests.web.records import record


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "state"))
    return Archive(tmp_path / "archive", 50)


def lose(archive: Archive, **more: object) -> None:
    registry.add(entry(history_dir=str(archive.directory), history_jobs=50, started_at=1_000, **GONE, **more))


def test_a_job_that_left_nothing_but_its_registration(archive: Archive, tmp_path: Path) -> None:
    """Its checkpoints are gone with their folder, or are on a system that is not asked."""
    for place in (None, str(tmp_path / "nowhere"), "hdfs://namenode:9000/checkpoints"):
        lose(archive, checkpoint_dir=place)
        archive_lost_jobs()
        kept = archive.get(FIRST)
        assert kept is not None
        assert (kept.state, kept.name, kept.script) == ("SUSPENDED", "clicks", "/home/me/job.py")
        assert (kept.started_at, kept.ended_at, kept.last_checkpoint) == (1_000, 1_000, None)
        assert (kept.error or "").endswith("ended without a word")
        assert not kept.settings.known
        assert registry.lost() == []
        (archive.directory / f"{FIRST}.json").unlink()


def test_a_driver_that_was_killed_after_its_job_had_ended(archive: Archive) -> None:
    archive.keep(dataclasses.replace(record(), job_id=FIRST, state="FINISHED", ended_at=5_000))
    lose(archive)
    archive_lost_jobs()
    kept = archive.get(FIRST)
    assert kept is not None
    assert kept.state == "FINISHED"
    assert registry.lost() == []


def test_a_job_that_was_killed_while_it_stopped_goes_on_from_its_savepoint(tmp_path: Path) -> None:
    """Output of the savepoint may be visible: from the newest checkpoint it would come twice."""
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    gate = job.engine.gates["publish"] = Gate()
    savepoint = job.stop(tmp_path / "savepoints")
    gate.reached()
    killed = entry(job.master.job_id, checkpoint_dir=str(tmp_path / "checkpoints"))
    record = record_of_lost(killed)
    gate.open()
    assert job.ended() is End.STOPPED
    assert record.last_checkpoint == savepoint.result(20)
    assert f"-s {record.last_checkpoint}" in record.failures[-1].traceback
    assert "chk-" not in record.failures[-1].traceback


def test_a_job_without_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    """execution.checkpointing.create-subdir is false, and the registration does not say so."""
    job = LocalJob(tmp_path, create_subdirectory=False)
    job.step()
    checkpoint = job.checkpoint()
    directory = str(tmp_path / "checkpoints")
    record = record_of_lost(entry(job.master.job_id, checkpoint_dir=directory))
    stranger = record_of_lost(entry("b" * 32, checkpoint_dir=directory))
    job.cancel()
    assert (record.last_checkpoint, record.records) == (checkpoint, 3)
    assert (stranger.last_checkpoint, stranger.checkpoints) == (None, [])
