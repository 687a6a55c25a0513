"""What checkpoints hold, when they are taken and kept, and what a job makes of bad ones."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.errors import BeadlineError
from beadline.state.operator.handles import LIST, StateContent, encode
from beadline.state.segments.segment import decode_segment, encode_segment
from beadline.state.segments.version import SegmentRef, checksum_of
from tests.recovery.jobs import SLEEP, STEP, Accident, differences, visible
from tests.recovery.running import Running

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine", "no_job_left")]

RETAINED = 3
RECORDS = 9 * STEP
# Everything in files, and one checkpoint more than the number to retain.
IN_FILES = {
    "execution.checkpointing.data-inline-threshold": "0",
    "execution.checkpointing.num-retained": str(RETAINED),
    "execution.checkpointing.interval": "200 ms",
}
ONCE = {"restart-strategy.type": "none"}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


# -- bad checkpoints: all of these resume the same cancelled job


@pytest.fixture(scope="module")
def cancelled(tmp_path_factory: pytest.TempPathFactory, local_engine: None) -> Path:
    """What a cancelled job leaves: the retained checkpoints and the output so far. Next to it is a copy."""
    folder = tmp_path_factory.mktemp("cancelled")
    (folder / "place").mkdir()
    job = Running(folder / "place", RECORDS, IN_FILES, pace=0.005)
    job.wait_for_checkpoints(RETAINED + 1)
    job.cancel()
    assert job.status.name == "CANCELED"
    shutil.copytree(folder / "place", folder / "copy")
    return folder / "place"


@pytest.fixture
def place(cancelled: Path) -> Path:
    """The folder of that job, as it left it. A job's folder stays the same one: in a copy another job would go on."""
    (job_folder,) = (cancelled / "checkpoints").iterdir()
    for path in [*cancelled.iterdir(), *job_folder.iterdir()]:
        if path != job_folder.parent:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Path(shutil.copytree(cancelled.with_name("copy"), cancelled, dirs_exist_ok=True))


def read(folder: Path) -> Snapshot:
    path = folder / "_metadata"
    return metadata.decode(path.read_bytes(), str(path))


def needed_by(home: Path) -> set[str]:
    return {path for folder in home.glob("chk-*") for path in read(folder).files()}


def newest_in(folder: Path) -> Path:
    return max(folder.glob("checkpoints/*/chk-*"), key=lambda path: int(path.name[4:]))


def only_innewest_in(folder: Path) -> Path:
    """A segment that the newest checkpoint needs and no other."""
    newest = newest_in(folder)
    others = {path for other in newest.parent.glob("chk-*") if other != newest for path in read(other).files()}
    return Path(sorted(read(newest).files() - others)[0])


def truncate(folder: Path) -> Path:
    path = only_innewest_in(folder)
    os.truncate(path, path.stat().st_size // 2)
    return path


def flip_a_bit(folder: Path) -> Path:
    path = newest_in(folder) / "_metadata"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def remove(folder: Path) -> Path:
    path = only_innewest_in(folder)
    path.unlink()
    return path


def test_a_cancelled_job_leaves_the_checkpoints_that_it_retains(place: Path) -> None:
    numbers = sorted(int(path.name[4:]) for path in place.glob("checkpoints/*/chk-*"))
    assert numbers == list(range(numbers[0], numbers[0] + RETAINED))
    newest = newest_in(place)
    assert all(segment.inline is None for segment in read(newest).segments), "the threshold is 0"
    shared = {str(path) for path in (newest.parent / "shared").rglob("*") if path.is_file()}
    assert shared == needed_by(newest.parent)
    assert differences(visible(place), RECORDS, whole=False) == []


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, pytest.param(remove, marks=pytest.mark.spark)])
def test_the_one_before_a_damaged_checkpoint_is_taken(
    damage: Callable[[Path], Path], place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = damage(place)
    newest = int(newest_in(place).name[4:])
    job = Running(place, RECORDS, {**IN_FILES, "execution.state-recovery.path": "latest"})
    job.finish()
    assert job._master.home.start.checkpoint_id == newest - 1
    said = [line for line in caplog.messages if str(path) in line]
    assert f"chk-{newest} can't be used" in said[0]
    # The job has finished and needs none. One that can't be read stays, with all it may need: somebody may repair it.
    assert [path.name for path in job.home.glob("chk-*")] == ([f"chk-{newest}"] if damage is flip_a_bit else [])


def test_a_checkpoint_that_is_damaged_while_the_job_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The newest checkpoint loses a file; then a function fails."""
    options = {**IN_FILES, "execution.checkpointing.interval": "1 h"}
    job = Running(tmp_path, 100 * STEP, options, accidents={0: "fail"}, gate="now", pace=0.001)
    older = newer = job.client.trigger_checkpoint().result()
    while read(Path(newer)).files() <= read(Path(older)).files():
        newer = job.client.trigger_checkpoint().result()
    path = remove(tmp_path)
    (tmp_path / "now").touch()
    job.wait_until(lambda: bool(job.restarts))
    job.wait_until(lambda: answers(job.client.trigger_checkpoint))
    job.cancel()
    assert differences(visible(tmp_path), 100 * STEP, whole=False) == []
    number = Path(newer).name.removeprefix("chk-")
    said = f"checkpoint {number} can't be restored, so the one before it is tried: {path}: the file is missing"
    assert said in caplog.messages


def answers(trigger: Any) -> bool:
    try:
        trigger().result()
    except BeadlineError:  # while it goes back
        return False
    return True


class Hostile:
    """Runs a command when it is unpickled, if the reader lets it."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self._marker}",)


def plant(folder: Path, change: Any) -> Path:
    """Change the newest checkpoint as somebody would who can write checksums too."""
    newest = newest_in(folder)
    snapshot = read(newest)
    changed = replace(snapshot, operators=tuple(change(operator) for operator in snapshot.operators))
    assert changed != snapshot
    (newest / "_metadata").write_bytes(metadata.encode(changed, str(newest)))
    return newest


def with_file(segment: SegmentRef, data: bytes) -> SegmentRef:
    assert segment.path is not None
    path = Path(segment.path).with_name(f"{uuid.uuid4().hex}.run")
    path.write_bytes(data)
    return replace(segment, path=str(path), offset=0, size=len(data), checksum=checksum_of(data))


def plant_in_segment(folder: Path) -> Path:
    def change_segment(segment: SegmentRef) -> SegmentRef:
        assert segment.path is not None
        data = Path(segment.path).read_bytes()[segment.offset : segment.offset + segment.size]
        content = decode_segment(data)
        table = content["sums"]
        table.changes[next(iter(table.changes))] = Hostile(folder / "hostile")
        return with_file(segment, encode_segment(content, 128))

    def change(operator: Any) -> Any:
        if operator.uid != "count":
            return operator
        handles = []
        for handle in operator.keyed:
            segments = tuple(
                change_segment(segment) if i == 0 else segment for i, segment in enumerate(handle.segments)
            )
            handles.append(replace(handle, segments=segments))
        return replace(operator, keyed=tuple(handles))

    return plant(folder, change)


def plant_in_locals(folder: Path) -> Path:
    hostile = pickle.dumps(Hostile(folder / "hostile"), 5)
    return plant(folder, lambda operator: replace(operator, locals=tuple(hostile for _ in operator.locals)))


def plant_in_operator_state(folder: Path) -> Path:
    hostile = encode(StateContent(LIST, [Hostile(folder / "hostile")]))

    def change(operator: Any) -> Any:
        states = tuple(
            s and s.with_segments(lambda segment: with_file(segment, hostile)) for s in operator.operator_state
        )
        return replace(operator, operator_state=states)

    return plant(folder, change)


@pytest.mark.parametrize(
    "plant_in", [pytest.param(plant_in_segment, marks=pytest.mark.spark), plant_in_locals, plant_in_operator_state]
)
def test_a_hostile_pickle_in_a_checkpoint_runs_no_code(plant_in: Callable[[Path], Path], place: Path) -> None:
    job = Running(place, RECORDS, {**IN_FILES, **ONCE, "execution.state-recovery.path": str(plant_in(place))})
    assert "posix.system" in job.end(), "it says what was refused"
    assert not (place / "hostile").exists()


# -- aligned and unaligned


def slow_step(folder: Path, options: dict[str, str]) -> tuple[Running, Snapshot, float]:
    """A job whose third step sleeps; a checkpoint is asked for meanwhile. How long did that take?"""
    options = {"execution.checkpointing.interval": "1 h", **options}
    job = Running(folder, 5 * STEP, options, accidents={2 * STEP: "sleep"}, gate=None)
    job.wait_until(lambda: Accident(folder, f"sleep-{2 * STEP}").happened)
    asked = time.monotonic()
    path = job.client.trigger_checkpoint().result()
    return job, read(Path(path)), time.monotonic() - asked


def test_an_aligned_checkpoint_waits_for_the_running_step(tmp_path: Path) -> None:
    _, snapshot, took = slow_step(tmp_path, {})
    assert took > SLEEP - 1
    assert (snapshot.step, snapshot.unaligned, dict(snapshot.in_flight)) == (3, False, {})


@pytest.mark.spark
def test_an_unaligned_checkpoint_overtakes_it_and_a_resume_may_leave_out_what_was_in_flight(tmp_path: Path) -> None:
    job, snapshot, took = slow_step(tmp_path, UNALIGNED)
    assert took < SLEEP - 1
    assert (snapshot.step, snapshot.unaligned) == (2, True)
    operator = snapshot.operator("numbers")
    assert operator is not None
    assert (operator.position, dict(snapshot.in_flight)) == ({"next": 120}, {"numbers": {"next": 180}})
    job.cancel()
    ignored = {"execution.state-recovery.without-channel-state.checkpoint-id": str(snapshot.checkpoint_id)}
    again = Running(tmp_path, 5 * STEP, {"execution.state-recovery.path": "latest", **ignored})
    again.finish(without=range(2 * STEP, 3 * STEP))


def test_an_alignment_timeout_lets_it_overtake_later(tmp_path: Path) -> None:
    options = {**UNALIGNED, "execution.checkpointing.aligned-checkpoint-timeout": "1 s"}
    job, snapshot, took = slow_step(tmp_path, options)
    assert 1 <= took < SLEEP - 1
    assert (snapshot.step, snapshot.unaligned) == (2, True)
    job.finish()


def test_a_checkpoint_that_waits_too_long_expires(tmp_path: Path) -> None:
    tolerant = {"execution.checkpointing.tolerable-failed-checkpoints": "5"}
    with pytest.raises(BeadlineError, match=r"The checkpoint took longer than its timeout\. 1000 ms"):
        slow_step(tmp_path, {"execution.checkpointing.timeout": "1 s", **tolerant})


# -- what is kept


def left(job: Running) -> list[str]:
    return [path.name for path in (job.folder / "checkpoints").rglob("*") if path.is_file()]


def test_small_state_is_in_the_metadata_and_deleted_on_cancellation(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": "1 mb",
    }
    job = Running(tmp_path, RECORDS, options, pace=0.005)
    job.wait_for_checkpoints(1)
    assert not [path for path in (job.home / "shared").rglob("*") if path.is_file()]
    assert {segment.inline is not None for segment in read(newest_in(tmp_path)).segments} == {True}
    job.cancel()
    assert job.status.name == "CANCELED"
    assert left(job) == []


def test_segments_are_compressed(tmp_path: Path) -> None:
    options = {**IN_FILES, "execution.checkpointing.snapshot-compression": "true"}
    job = Running(tmp_path, RECORDS, options, pace=0.005)
    job.wait_for_checkpoints(1)
    path = next(path for path in (job.home / "shared").rglob("*.run"))
    assert b'"codec": "lz4"' in path.read_bytes()
    job.finish()
    assert left(job) == ["ended"]


def test_checkpoints_keep_their_distance(tmp_path: Path) -> None:
    """The pause between them is longer than the interval."""
    pause = {"execution.checkpointing.interval": "100 ms", "execution.checkpointing.min-pause": "800 ms"}
    job = Running(tmp_path, 100 * STEP, pause, pace=0.005)
    job.wait_for_checkpoints(3)
    job.cancel()
    gaps = [b.triggered_at - (a.ended_at or 0) for a, b in itertools.pairwise(job.good_checkpoints())]
    assert len(gaps) >= 2
    assert min(gaps) >= 799, "both ends are cut to whole milliseconds"


def test_state_that_is_too_large_for_the_drivers_memory_fails_the_job(tmp_path: Path) -> None:
    """Two checkpoints may fail in a row; the third fails the job."""
    options = {
        **ONCE,
        "execution.checkpointing.dir": "",
        "execution.checkpointing.storage": "jobmanager",
        "beadline.checkpointing.jobmanager.max-state-size": "10 bytes",
        "execution.checkpointing.tolerable-failed-checkpoints": "2",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.externalized-checkpoint-retention": "",
    }
    job = Running(tmp_path, 100 * STEP, options, pace=0.001)
    error = job.end()
    assert (job.status.name, job.failed_checkpoints) == ("FAILED", 3)
    assert "3 checkpoints failed in a row, and" in error
    assert "tolerable-failed-checkpoints tolerates 2" in error
    assert "beadline.checkpointing.jobmanager.max-state-size" in error
    assert "set execution.checkpointing.dir" in error
