"""Disposing of savepoints and retained checkpoints: what Beadline wrote goes, everything else stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beadline.checkpoint.cleanup.disposal import dispose_savepoint
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ownership.holder import holder_of
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.cli.main import app
from tests.checkpoint.snapshots import all_files, make_snapshot, place_in


@pytest.fixture
def storage(tmp_path: Path) -> FileJobStorage:
    return place_in(tmp_path / "checkpoints", inline_threshold=0)


def savepoint(storage: FileJobStorage, folder: Path) -> Path:
    return Path(storage.write_savepoint(make_snapshot(3, storage.prepare()), str(folder)).pointer)


def checkpoints(storage: FileJobStorage, *numbers: int) -> list[str]:
    return [storage.write(make_snapshot(n, storage.prepare())).pointer for n in numbers]


@pytest.mark.parametrize("pointer", ["{}", "{}/_metadata", "file://{}"])
def test_a_savepoint_goes_and_nothing_beside_it(pointer: str, storage: FileJobStorage, tmp_path: Path) -> None:
    kept = savepoint(storage, tmp_path / "savepoints")
    before = all_files(tmp_path)
    path = savepoint(storage, tmp_path / "savepoints")
    files = [file for file in path.rglob("*") if file.is_file()]
    gone = dispose_savepoint(pointer.format(path))
    assert gone.is_gone
    assert (gone.folder, gone.files) == (str(path), len(files))
    assert not path.exists()
    assert all_files(tmp_path) == before
    assert verify(read_snapshot(str(kept))) == []


def test_what_others_put_there_stays(storage: FileJobStorage, tmp_path: Path) -> None:
    path = savepoint(storage, tmp_path / "savepoints")
    (path / "count" / "total").mkdir(parents=True)
    (path / "count" / "total" / f"part-00000-{'a' * 32}.parquet").write_text("ours")
    (path / "count" / "total" / "notes.txt").write_text("theirs")
    (path / "README").write_text("theirs")
    (path / "empty").mkdir()
    assert not dispose_savepoint(str(path)).is_gone
    assert sorted(all_files(path)) == ["README", "count/total/notes.txt"]
    with pytest.raises(SnapshotError, match="not a checkpoint or savepoint: it has no _metadata"):
        dispose_savepoint(str(path))


def test_the_metadata_goes_first(storage: FileJobStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = savepoint(storage, tmp_path / "savepoints")
    unlink, gone = os.unlink, []

    def failing(file: str) -> None:
        if gone:
            raise OSError(5, "Input/output error", file)
        gone.append(file)
        unlink(file)

    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(SnapshotError, match=f"can't dispose of {path}: .*Input/output error"):
        dispose_savepoint(str(path))
    assert gone == [str(path / "_metadata")]


def test_a_checkpoint_goes_with_the_files_that_only_it_needs(
    storage: FileJobStorage,
) -> None:
    older, newer = checkpoints(storage, 1, 2)
    kept = read_snapshot(newer)
    only = read_snapshot(older).files() - kept.files()
    dispose_savepoint(older)
    assert not os.path.exists(older)
    assert verify(kept) == []
    assert not any(os.path.exists(file) for file in only)
    dispose_savepoint(newer)
    assert os.listdir(os.path.dirname(storage.folder)) == [], "nobody can resume the job any more"


def test_the_checkpoint_of_a_running_job_is_refused(storage: FileJobStorage, tmp_path: Path) -> None:
    storage.hold(Lease.acquire(storage.folder, owner="somebody"))
    (pointer,) = checkpoints(storage, 1)
    before = all_files(tmp_path)
    with pytest.raises(SnapshotError, match=r"chk-1 belongs to a job that still runs .*somebody.*Cancel the job first"):
        dispose_savepoint(pointer)
    assert all_files(tmp_path) == before
    storage.release()
    dispose_savepoint(pointer)
    assert not os.path.exists(pointer)


def test_a_driver_whose_process_is_gone_holds_nothing(tmp_path: Path) -> None:
    script = f"from beadline.checkpoint.ownership.lease import Lease; Lease.acquire({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert holder_of(str(tmp_path)) is None
    lease = Lease.acquire(str(tmp_path), owner="me")
    assert str(holder_of(str(tmp_path))).startswith("me since ")
    lease.release()
    assert holder_of(str(tmp_path)) is None
    lease.check()
    assert Lease.acquire(str(tmp_path)).epoch == 3, "an epoch is never given twice"


def _newer_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format": 1,', b'"format": 99,'))


def _cut(path: Path) -> None:
    os.truncate(path, 200)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(_newer_version, "has format version 99, and this Beadline reads up to 1"), (_cut, "is cut short or altered")],
)
def test_what_can_not_be_read_is_left_alone(spoil: object, why: str, storage: FileJobStorage, tmp_path: Path) -> None:
    path = savepoint(storage, tmp_path / "savepoints")
    spoil(path / "_metadata")  # type: ignore[operator]
    before = all_files(tmp_path)
    with pytest.raises(SnapshotError, match=why) as caught:
        dispose_savepoint(str(path))
    assert str(path) in str(caught.value)
    assert all_files(tmp_path) == before


def test_no_snapshot_at_all(storage: FileJobStorage, tmp_path: Path) -> None:
    checkpoints(storage, 1)
    before = all_files(tmp_path)
    (tmp_path / "file").write_text("mine")
    for path, why in {
        tmp_path / "nowhere": "the path does not exist",
        tmp_path: "is a directory and not a checkpoint or savepoint",
        Path(storage.folder): r"Did you mean .*chk-1\?",
        Path(storage.folder) / "shared": "is a directory and not a checkpoint or savepoint",
        tmp_path / "file": "is not the metadata of a Beadline checkpoint",
    }.items():
        with pytest.raises(SnapshotError, match=why) as caught:
            dispose_savepoint(str(path))
        assert re.search(str(path), str(caught.value))
    (tmp_path / "file").unlink()
    assert all_files(tmp_path) == before


def test_the_command(storage: FileJobStorage, tmp_path: Path) -> None:
    path = savepoint(storage, tmp_path / "savepoints")
    said = CliRunner().invoke(app, ["savepoint", "dispose", str(path)])
    assert said.exit_code == 0
    assert re.match(rf"Savepoint '{path}' disposed: \d+ files, [\d,]+ bytes\.\n$", said.output)
    assert not path.exists()
    said = CliRunner().invoke(app, ["savepoint", "dispose", str(path)])
    assert said.exit_code == 1
    assert said.output == f"error: there is no checkpoint or savepoint at {path}: the path does not exist\n"
