"""Whether the driver that holds a job is alive: told by its process where it can be, by its beat elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from beadline.checkpoint.ownership.holder import PATIENCE_SECONDS, holder_of, last_holder
from beadline.checkpoint.ownership.lease import Lease, beat_path, is_lease_file
from beadline.checkpoint.ownership.process import Beat, Process, read_beat, this_process

HERE = this_process()
ELSEWHERE = replace(HERE, place="another-host 1 pid:[1]")


def leased(folder: Path, process: Process | None, **more: object) -> str:
    """A lease whose note names a process."""
    folder.mkdir(exist_ok=True)
    note = {"owner": "anna@host", "since": "noon", "token": "t", **more}
    if process is not None:
        note["process"] = asdict(process)
    (folder / "lease-1").write_text(json.dumps(note))
    return str(folder)


class Pauses:
    """Counts the seconds that somebody waits, and lets something happen meanwhile."""

    def __init__(self, then: Callable[[float], None] = lambda waited: None) -> None:
        self.waited = 0.0
        self._then = then

    def __call__(self, seconds: float) -> None:
        self.waited += seconds
        self._then(self.waited)


def never(seconds: float) -> None:
    raise AssertionError("nobody has to wait for this")


@pytest.fixture
def process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def identity_of(number: int) -> Process:
    from beadline.checkpoint.ownership import process

    return Process(HERE.place, number, process._look_up(number)[1])


# -- on this machine


def test_a_process_of_this_machine_is_asked_for(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    folder = leased(tmp_path / "job", identity_of(process.pid))
    assert str(holder_of(folder, pause=never)) == "anna@host since noon"
    process.send_signal(signal.SIGSTOP)
    assert holder_of(folder, pause=never) is not None, "it can come back"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert holder_of(folder, pause=never) is None, "it is dead, although nobody has asked yet how it died"
    process.wait()
    assert holder_of(folder, pause=never) is None


def test_another_process_with_its_number_is_not_the_holder(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    try:
        folder = leased(tmp_path / "job", replace(identity_of(process.pid), started="1"))
        assert holder_of(folder, pause=never) is None
    finally:
        process.kill()
        process.wait()


def test_a_driver_before_this_one_with_the_same_number(tmp_path: Path) -> None:
    """As process 1 of a container that was started again."""
    assert HERE.started
    folder = leased(tmp_path / "job", replace(HERE, started="1"))
    assert holder_of(folder, pause=never) is None


def test_one_that_said_so_has_ended(tmp_path: Path) -> None:
    assert holder_of(leased(tmp_path / "job", HERE, ended=True), pause=never) is None
    assert holder_of(leased(tmp_path / "job", ELSEWHERE, ended=True), pause=never) is None
    assert holder_of(str(tmp_path / "nothing"), pause=never) is None


def test_a_driver_may_end_while_its_process_goes_on(tmp_path: Path) -> None:
    lease = Lease.acquire(str(tmp_path))
    holder = holder_of(str(tmp_path), pause=never)
    assert holder is not None
    assert (holder.process, holder.epoch) == (HERE, 1)
    lease.let_go()
    assert holder_of(str(tmp_path), pause=never) is None
    again = Lease.acquire(str(tmp_path))
    assert holder_of(str(tmp_path), pause=never) is not None
    again.release()
    assert holder_of(str(tmp_path), pause=never) is None


# -- elsewhere


@pytest.mark.parametrize("noted", [ELSEWHERE, None])
def test_elsewhere_it_is_alive_if_its_beat_moves(noted: Process | None, tmp_path: Path) -> None:
    folder = leased(tmp_path / "job", noted)
    beat = Path(beat_path(folder, 1))
    beat.write_text("17\n")

    def beats(waited: float) -> None:
        if waited == 5:
            beat.write_text("18\n")

    pauses = Pauses(beats)
    assert str(holder_of(folder, pause=pauses)) == "anna@host since noon"
    assert pauses.waited == 5, "nobody waits longer than necessary"


@pytest.mark.parametrize("beat", ["17\n", None])
def test_elsewhere_it_is_dead_if_its_beat_stands_still(
    beat: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = leased(tmp_path / "job", ELSEWHERE)
    if beat is not None:
        Path(beat_path(folder, 1)).write_text(beat)
    pauses = Pauses()
    with caplog.at_level("INFO", "beadline"):
        assert holder_of(folder, pause=pauses) is None
    assert pauses.waited == PATIENCE_SECONDS == 12
    assert "last run by anna@host since noon" in caplog.text
    assert "watching for up to 12 s" in caplog.text


def test_a_machine_or_container_that_was_started_again_is_another_place(tmp_path: Path) -> None:
    """Its processes are others, and another one of the same name may be alive: only the beat tells."""
    host = HERE.place.split()[0]
    folder = leased(tmp_path / "job", replace(HERE, place=f"{host} another-boot pid:[1]"))
    pauses = Pauses()
    assert holder_of(folder, pause=pauses) is None
    assert pauses.waited == PATIENCE_SECONDS


def test_the_beat_of_an_older_epoch_says_nothing(tmp_path: Path) -> None:
    folder = leased(tmp_path / "job", ELSEWHERE)
    (tmp_path / "job" / "lease-1").rename(tmp_path / "job" / "lease-2")
    old = Path(beat_path(folder, 1))
    assert holder_of(folder, pause=Pauses(lambda waited: old.write_text(str(waited)) and None)) is None
    holder = last_holder(folder)
    assert holder is not None
    assert holder.epoch == 2


# -- the beat


def test_a_holder_beats_until_it_lets_go(tmp_path: Path) -> None:
    lease = Lease.acquire(str(tmp_path))
    path = beat_path(str(tmp_path), 1)
    assert read_beat(path) is None
    lease.hold()
    _wait_for(lambda: read_beat(path) == b"1\n")
    lease.release()
    assert is_lease_file(os.path.basename(path)), "it goes with the other files of the lease"
    os.unlink(path)
    assert sorted(os.listdir(tmp_path)) == ["fence-1", "lease-1"]


def test_a_beat_counts_and_bears_a_folder_that_is_away(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    beat = Beat(str(folder / "beat-1"), every=0.001)
    try:
        time.sleep(0.01)
        assert not folder.exists(), "it never makes the folder of a job that was removed"
        folder.mkdir()
        _wait_for(lambda: (read_beat(str(folder / "beat-1")) or b"") != b"")
        before = read_beat(str(folder / "beat-1"))
        _wait_for(lambda: read_beat(str(folder / "beat-1")) != before)
    finally:
        beat.stop()
    assert os.listdir(folder) == ["beat-1"]
    last = read_beat(str(folder / "beat-1"))
    time.sleep(0.01)
    assert read_beat(str(folder / "beat-1")) == last


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)
