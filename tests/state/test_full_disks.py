"""Files that find no room are named."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.errors import JobExecutionError, StorageError
from beadline.master.stepping import job_error
from beadline.runtime.failure import NO_RECORD, Failure, UserCodeError
from beadline.state.backend_settings import RocksSettings
from beadline.state.disks import is_full, naming
from beadline.state.segments.files import SegmentFiles, write_file
from tests.disks import small_disk_at
from tests.state.contract.subject import ANY, ROCKSDB, Subject


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "64k") as folder:
        yield folder


def test_a_file_that_finds_no_room_is_named(small_disk: Path) -> None:
    files = SegmentFiles(str(small_disk))
    with pytest.raises(OSError, match=rf"No space left on device: '{small_disk}/x\.run'") as caught:
        files.write("x.run", bytes(100_000))
    assert is_full(caught.value)
    assert os.listdir(small_disk) == []
    named = rf"No space left on device: '{small_disk}/\.draft\."
    with files.draft() as draft, pytest.raises(OSError, match=named):
        draft.write(bytes(1_000_000))
    assert os.listdir(small_disk) == []
    with files.draft() as draft:
        small_disk.joinpath("big").write_bytes(bytes(60_000))
        draft.write(bytes(8_000))  # it is still in a buffer
        with pytest.raises(OSError, match=named):
            draft.publish("y.run")
    assert os.listdir(small_disk) == ["big"]
    assert write_file(str(small_disk / "small"), b"x")


def test_rocksdb_that_finds_no_room_when_it_is_closed(small_disk: Path) -> None:
    resize = ["mount", "-o", "remount,size={}", str(small_disk)]
    subprocess.run([part.format("1m") for part in resize], check=True)
    settings = RocksSettings(own_bytes=0)
    subject = Subject(ROCKSDB, "kept", small_disk, [ValueStateDescriptor("v", ANY)], rocks=settings)

    def step() -> None:
        with subject.step() as step:
            for number in range(8_000):
                step.at(number)["v"].update(random.randbytes(200))

    step()  # its changes are written when the next one begins
    with pytest.raises(StorageError, match=r"RocksDB has no space left: .*\.sst.* Free some space there") as caught:
        step()
    assert len(str(caught.value)) < 500
    subprocess.run([part.format("64m") for part in resize], check=True)
    step()
    assert len(subject.stored("v", "value")) == 8_000
    subject.close()


def test_other_errors_are_not_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Read-only") as caught, naming("/some/path"):
        raise OSError(errno.EROFS, "Read-only file system")
    assert caught.value.filename == "/some/path"
    assert not is_full(caught.value)
    assert not is_full(ValueError("no room"))
    assert is_full(RuntimeError("IO error: No space left on device: While appending to file: /db/000012.sst"))


def test_a_task_that_finds_no_room_says_how_to_go_on() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/data/x.run")
    told = job_error(Failure.of(UserCodeError("counting", NO_RECORD, error), "", 3))
    assert isinstance(told, JobExecutionError)
    assert str(told).startswith("operator 'counting' (subtask 3) failed: OSError: [Errno 28] No space left on device")
    assert "'/data/x.run'. Free some space there: the job goes on from its last checkpoint" in str(told)
    assert not hasattr(told, "__notes__"), "where in Beadline it happened is of no use"
