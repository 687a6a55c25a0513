"""What a job takes for its own and what it looks at: snapshots of the job itself, and of anybody else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

from beadline.checkpoint.contents.metadata import METADATA
from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import BeadlineError
from beadline.state.codec import Frozen
from beadline.state.segments.files import read_segment
from beadline.state.segments.segment import TableChanges, decode_segment, encode_segment
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in
from tests.state.pickle_programs import build, name, program

RETAIN: dict[str, Any] = {"retention": Retention.RETAIN_ON_CANCELLATION, "retained": 3}
#: Sets an attribute of a class, for the whole process.
ATTACK = program(name("beadline.common.types", "Row") + build((None, {"__eq__": 1})))
REFUSED = "it sets the attributes of something that is no new instance"


def foreign(snapshot: Snapshot) -> set[bool | None]:
    return {segment.foreign for segment in snapshot.segments}


def test_state_that_a_job_resumes_from_its_own_folder_is_its_own(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, **RETAIN)
    job.step()
    pointer = job.checkpoint()
    job.cancel()
    assert foreign(read_snapshot(pointer)) == {None}, "whoever only reads it does not know"
    resumed = LocalJob(tmp_path, given=3, restore_path="latest", **RETAIN)
    resumed.step()
    assert foreign(resumed.home.start) == {False}
    assert foreign(resumed.home.read(resumed.checkpoint())) == {False}
    assert resumed.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)


@pytest.mark.parametrize("format", [SavepointFormatType.NATIVE, SavepointFormatType.CANONICAL])
def test_state_of_a_savepoint_stays_foreign_in_the_checkpoints_of_the_job(
    format: SavepointFormatType, tmp_path: Path
) -> None:
    job = LocalJob(tmp_path / "one", **RETAIN)
    job.step()
    path = job.savepoint(tmp_path / "savepoints", format)
    job.cancel()
    other = LocalJob(tmp_path / "other", given=3, restore_path=str(path), **RETAIN)
    other.step()
    pointer = other.checkpoint()
    assert foreign(other.home.start) == {None}
    assert foreign(other.home.read(pointer)) == {True, False}, "taken over, and written by the job itself"
    assert '"foreign": true' in Path(pointer, METADATA).read_text()
    other.cancel()
    again = LocalJob(tmp_path / "other", given=6, restore_path="latest", **RETAIN)
    again.step()
    assert foreign(again.home.start) == {True, False}
    assert again.finish() is End.FINISHED


def with_bad_locals(operator: Any) -> bool:
    if not any(operator["locals"]):
        return False
    operator["locals"] = [{"$bytes": base64.b64encode(ATTACK).decode()} for _ in operator["locals"]]
    return True


def with_bad_values(operator: Any) -> bool:
    for handle in filter(None, operator["keyed"]):
        for run in handle["runs"]:
            bad = poisoned(run)
            if bad is not None:
                for key in ("path", "offset", "checksum"):
                    run.pop(key, None)
                run.update(inline=base64.b64encode(bad).decode(), size=len(bad))
                return True
    return False


def poisoned(run: Any) -> bytes | None:
    """A segment whose values are an attack, with right checksums."""
    if "inline" in run:
        data = base64.b64decode(run["inline"])
    else:
        data = Path(FOLDER[0], run["path"]).read_bytes()[run["offset"] :][: run["size"]]
    content = decode_segment(data)
    made = {
        table: TableChanges(held.kind, held.namespaced, dict.fromkeys(held.changes, Frozen(ATTACK)))
        for table, held in content.items()
        if held.kind == "value"
    }
    return encode_segment(made, 128) if made else None


FOLDER: list[Path] = []


def a_savepoint(tmp_path: Path, change: Callable[[Any], bool]) -> Path:
    job = LocalJob(tmp_path / "one", **RETAIN)
    job.step()
    path = job.savepoint(tmp_path / "savepoints", SavepointFormatType.NATIVE)
    job.cancel()
    FOLDER[:] = [path]
    altered(path / METADATA, change)
    return path


def test_an_attack_in_what_operators_keep_lets_no_job_begin(tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, with_bad_locals)
    other = LocalJob(tmp_path / "other", given=3, restore_path=str(path), **RETAIN)
    assert other.ended() is End.NEVER_BEGAN
    assert REFUSED in str(other.master.error)


def test_an_attack_in_state_is_refused_where_it_is_read(tmp_path: Path) -> None:
    snapshot = read_snapshot(str(a_savepoint(tmp_path, with_bad_values)))
    segment = next(snapshot.segments)
    with pytest.raises(BeadlineError, match=REFUSED):
        decode_segment(read_segment(segment), own=segment.is_own)


def altered(path: Path, change: Callable[[Any], bool]) -> None:
    """Change the operators in a ``_metadata``, and make its checksum right again."""
    content = json.loads(path.read_bytes())["snapshot"]
    changed = [change(operator) for operator in content["operators"]]
    assert any(changed), "nothing was changed"
    version, rest = b'"format": 1,\n', b'"snapshot": ' + json.dumps(content, indent=1).encode() + b"\n}\n"
    checksum = xxhash.xxh3_128_hexdigest(version + rest).encode()
    path.write_bytes(b'{\n"beadline": "snapshot",\n%b"checksum": "xxh3_128:%b",\n%b' % (version, checksum, rest))
