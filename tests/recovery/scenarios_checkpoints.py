"""What checkpoints hold, when they are taken and kept, and what a job makes of bad ones. One session for all of it."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.errors import BeadlineError
from beadline.state.operator.handles import LIST, StateContent, encode
from beadline.state.segments.segment import decode_segment, encode_segment
from beadline.state.segments.version import SegmentRef, checksum_of
from tests.recovery.jobs import SLEEP, STEP, Accident, differences, visible
from tests.recovery.running import Running
from tests.recovery.telling import tell_all
from tests.sessions import start_session

RETAINED = 3
RECORDS = 9 * STEP
# Everything in files, and one checkpoint more than the number to retain.
IN_FILES = {
    "execution.checkpointing.data-inline-threshold": "0",
    "execution.checkpointing.num-retained": str(RETAINED),
    "execution.checkpointing.interval": "200 ms",
}
LATEST = {**IN_FILES, "execution.state-recovery.path": "latest"}
ONCE = {"restart-strategy.type": "none"}
TOLERANT = {"execution.checkpointing.tolerable-failed-checkpoints": "5"}
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


# -- bad checkpoints: all of these resume a copy of the same cancelled job


def _cancelled_job(folder: Path) -> dict[str, Any]:
    """Leaves ``folder`` as a cancelled job does: the retained checkpoints and the output so far."""
    job = Running(folder, RECORDS, IN_FILES)
    job.wait_for_checkpoints(RETAINED + 1)
    job.cancel()
    shared = [path for path in (job.home / "shared").rglob("*") if path.is_file()]
    newest = _read(job.home / f"chk-{job.numbers[-1]}")
    return {
        "status": job.status.name,
        "numbers": job.numbers,
        "inline": sum(segment.inline is not None for segment in newest.segments),
        "unneeded": sorted(path.name for path in shared if str(path) not in _needed(job.home)),
        "beginning": differences(visible(folder), RECORDS, whole=False),
    }


def _read(folder: Path) -> Snapshot:
    path = folder / "_metadata"
    return metadata.decode(path.read_bytes(), str(path))


def _needed(home: Path) -> set[str]:
    return {path for folder in home.glob("chk-*") for path in _read(folder).files()}


def _newest(folder: Path) -> Path:
    return max(folder.glob("checkpoints/*/chk-*"), key=lambda path: int(path.name[4:]))


def _only_in_newest(folder: Path) -> Path:
    """A segment that the newest checkpoint needs and no other."""
    newest = _newest(folder)
    others = {path for other in newest.parent.glob("chk-*") if other != newest for path in _read(other).files()}
    return Path(sorted(_read(newest).files() - others)[0])


def _truncate(folder: Path) -> Path:
    path = _only_in_newest(folder)
    os.truncate(path, path.stat().st_size // 2)
    return path


def _flip_a_bit(folder: Path) -> Path:
    path = _newest(folder) / "_metadata"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def _remove(folder: Path) -> Path:
    path = _only_in_newest(folder)
    path.unlink()
    return path


def damaged_checkpoints(folder: Path) -> dict[str, Any]:
    """The newest one is truncated, has a bit flipped, or misses a file: the one before it is taken.

    Then with something hostile in it.
    """
    place, backup = folder / "place", folder / "backup"
    place.mkdir()
    facts: dict[str, Any] = {"cancelled": _cancelled_job(place)}
    place.rename(backup)
    for damage in (_truncate, _flip_a_bit, _remove):
        shutil.copytree(backup, place)
        path = damage(place)
        newest = int(_newest(place).name[4:])
        job = Running(place, RECORDS, LATEST)
        facts[damage.__name__.strip("_")] = {
            "path": str(path),
            "skipped": f"chk-{newest} can't be used",
            "failed": job.end(),
            "problems": differences(visible(place), RECORDS),
            "started": job._master.home.start.checkpoint_id,
            "expected": newest - 1,
            "left": sorted(path.name for path in job.home.glob("*") if path.name.startswith("chk")),
        }
        shutil.rmtree(place)
    for plant in (_plant_in_segment, _plant_in_locals, _plant_in_operator_state):
        shutil.copytree(backup, place)
        job = Running(place, RECORDS, {**LATEST, **ONCE, "execution.state-recovery.path": str(plant(place))})
        facts[plant.__name__.strip("_")] = {"failed": job.end(), "ran": (place / "hostile").exists()}
        shutil.rmtree(place)
    return facts


def damaged_while_it_runs(folder: Path) -> dict[str, Any]:
    """The newest checkpoint loses a file; then a function fails."""
    options = {**IN_FILES, "execution.checkpointing.interval": "1 h"}
    job = Running(folder, 100 * STEP, options, accidents={0: "fail"}, gate="now")
    older = job.client.trigger_checkpoint().result()
    newer = older
    while _read(Path(newer)).files() <= _read(Path(older)).files():
        newer = job.client.trigger_checkpoint().result()
    path = _remove(folder)
    (folder / "now").touch()
    job.wait_until(lambda: bool(job.restarts))
    job.wait_until(lambda: _answers(job.client.trigger_checkpoint))
    job.cancel()
    problems = differences(visible(folder), 100 * STEP, whole=False)
    return {"path": str(path), "newer": Path(newer).name, "problems": problems, "restarts": job.restarts}


def _answers(trigger: Any) -> bool:
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


def _plant(folder: Path, change: Any) -> Path:
    """Change the newest checkpoint as somebody would who can write checksums too."""
    newest = _newest(folder)
    snapshot = _read(newest)
    changed = replace(snapshot, operators=tuple(change(operator) for operator in snapshot.operators))
    assert changed != snapshot
    (newest / "_metadata").write_bytes(metadata.encode(changed, str(newest)))
    return newest


def _with_file(segment: SegmentRef, data: bytes) -> SegmentRef:
    assert segment.path is not None
    path = Path(segment.path).with_name(f"{uuid.uuid4().hex}.run")
    path.write_bytes(data)
    return replace(segment, path=str(path), offset=0, size=len(data), checksum=checksum_of(data))


def _plant_in_segment(folder: Path) -> Path:
    def change_segment(segment: SegmentRef) -> SegmentRef:
        assert segment.path is not None
        data = Path(segment.path).read_bytes()[segment.offset : segment.offset + segment.size]
        content = decode_segment(data)
        table = content["sums"]
        table.changes[next(iter(table.changes))] = Hostile(folder / "hostile")
        return _with_file(segment, encode_segment(content, 128))

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

    return _plant(folder, change)


def _plant_in_locals(folder: Path) -> Path:
    hostile = pickle.dumps(Hostile(folder / "hostile"), 5)
    return _plant(folder, lambda operator: replace(operator, locals=tuple(hostile for _ in operator.locals)))


def _plant_in_operator_state(folder: Path) -> Path:
    hostile = encode(StateContent(LIST, [Hostile(folder / "hostile")]))

    def change(operator: Any) -> Any:
        states = tuple(
            s and s.with_segments(lambda segment: _with_file(segment, hostile)) for s in operator.operator_state
        )
        return replace(operator, operator_state=states)

    return _plant(folder, change)


# -- aligned and unaligned


def _slow_step(folder: Path, options: dict[str, str]) -> tuple[Running, Any, float]:
    """A job whose third step sleeps; a checkpoint is asked for meanwhile. How long did that take?"""
    options = {"execution.checkpointing.interval": "1 h", **options}
    job = Running(folder, 5 * STEP, options, accidents={2 * STEP: "sleep"}, gate=None)
    sleeps = Accident(folder, f"sleep-{2 * STEP}")
    job.wait_until(lambda: sleeps.happened)
    asked = time.monotonic()
    path = job.client.trigger_checkpoint().result()
    took = time.monotonic() - asked
    return job, _read(Path(path)), took


def overtaking(folder: Path) -> dict[str, Any]:
    """Aligned checkpoints wait for the step that runs, unaligned ones don't, and a timeout turns one to the other."""
    facts = {}
    for name, options in {
        "aligned": {},
        "unaligned": UNALIGNED,
        "timeout": {**UNALIGNED, "execution.checkpointing.aligned-checkpoint-timeout": "1 s"},
    }.items():
        inside = folder / name
        inside.mkdir()
        job, snapshot, took = _slow_step(inside, options)
        facts[name] = {
            "took": took,
            "step": snapshot.step,
            "unaligned": snapshot.unaligned,
            "in_flight": dict(snapshot.in_flight),
            "position": snapshot.operator("numbers").position,
        }
        if name == "timeout":
            facts[name] |= {"failed": job.end(), "problems": differences(visible(inside), 5 * STEP)}
            continue
        job.cancel()
        facts[name] |= {"status": job.status.name}
        if name == "unaligned":
            ignored = {"execution.state-recovery.without-channel-state.checkpoint-id": str(snapshot.checkpoint_id)}
            again = Running(inside, 5 * STEP, {"execution.state-recovery.path": "latest", **ignored})
            facts["ignoring"] = {
                "failed": again.end(),
                "problems": differences(visible(inside), 5 * STEP, without=range(2 * STEP, 3 * STEP)),
            }
    inside = folder / "expired"
    inside.mkdir()
    try:
        _slow_step(inside, {"execution.checkpointing.timeout": "1 s", **TOLERANT})
    except BeadlineError as error:
        facts["expired"] = {"error": str(error)}
    facts["sleep"] = {"seconds": SLEEP}
    return facts


# -- what is kept


def kept_and_deleted(folder: Path) -> dict[str, Any]:
    """Compressed and inline; deleted on cancellation, retained or not when the job finishes."""
    facts: dict[str, Any] = {}
    delete = {"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"}
    inline = {"execution.checkpointing.data-inline-threshold": "1 mb"}
    job = _started(folder, "deleted", {**delete, **inline})
    facts["inline"] = {"files": _shared(job), "segments": _kinds(job)}
    job.cancel()
    facts["deleted"] = {"status": job.status.name, "left": _left(job)}

    job = _started(folder, "compressed", {**IN_FILES, "execution.checkpointing.snapshot-compression": "true"})
    path = next(path for path in (job.home / "shared").rglob("*.run"))
    facts["compressed"] = {"codec": b'"codec": "lz4"' in path.read_bytes(), "failed": job.end()}
    facts["compressed"] |= {"left": _left(job), "problems": differences(visible(job.folder), RECORDS)}
    return facts


def _started(folder: Path, name: str, options: dict[str, str]) -> Running:
    inside = folder / name
    inside.mkdir()
    job = Running(inside, RECORDS, options)
    job.wait_for_checkpoints(1)
    return job


def _shared(job: Running) -> int:
    return sum(path.is_file() for path in (job.home / "shared").rglob("*"))


def _kinds(job: Running) -> list[bool]:
    """Whether the segments of the newest checkpoint are inline."""
    return [segment.inline is not None for segment in _read(_newest(job.folder)).segments]


def _left(job: Running) -> list[str]:
    return [path.name for path in (job.folder / "checkpoints").rglob("*") if path.is_file()]


def pauses(folder: Path) -> dict[str, Any]:
    """The pause between checkpoints is longer than the interval."""
    pause = {"execution.checkpointing.interval": "100 ms", "execution.checkpointing.min-pause": "1500 ms"}
    job = Running(folder, 100 * STEP, pause)
    job.wait_for_checkpoints(3)
    job.cancel()
    done = job.good_checkpoints()
    gaps = [b.triggered_at - (a.ended_at or 0) for a, b in itertools.pairwise(done)]
    return {"gaps": gaps, "failed": job.failed_checkpoints}


def too_large_for_memory(folder: Path) -> dict[str, Any]:
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
    job = Running(folder, 100 * STEP, options)
    error = job.end()
    return {"error": error, "status": job.status.name, "failures": job.failed_checkpoints}


SCENARIOS = [damaged_checkpoints, damaged_while_it_runs, overtaking, kept_and_deleted, pauses, too_large_for_memory]

if __name__ == "__main__":
    session = start_session()
    tell_all(SCENARIOS)
    session.stop()
