"""A bucket is a folder below the base path, whatever is in the record that it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.common import Encoder
from beadline.connectors.files import BulkFileSink, RowFileSink
from beadline.connectors.sink import Stager
from beadline.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from beadline.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_bulk import FORMATS, record
from tests.datastream.jobs import environment, restarting

REFUSED = {
    "leads elsewhere": ["..", "../../out", "a/../../b", "a/..", ".", "a/./b"],
    "absolute path": ["/etc", "//a"],
    "begin with '.staging-'": [".staging-x", "a/.staging-0123", ".Staging-x"],
    "control characters": ["a\0b", "a\nb", "a/\x1b[31m", "\x7f", "\x85"],
    "not valid Unicode": ["\ud800"],
    "has 256 bytes": ["a" * 256, "ok/" + "ä" * 128],
    "the name of a file of this sink": ["part-01234567-0-0.txt", "a/compacted-part-01234567_3-0-1.txt"],
}
TAKEN = ["", "a", "a/b", "day=1?/50%/ä b", "a//b/", "...", "..a", ".hidden", "staging-x", "a" * 255, "part-0-0"]


def write(shelf: Shelf, bucket: Any, rows: bool) -> list[Any]:
    """What is staged of one record of a bucket."""
    kind, how = (RowFileSink, str) if rows else (BulkFileSink, FORMATS["avro"][0]._encoding)
    made: Any = kind(shelf.base, (lambda each: b"row\n") if rows else how, lambda each, now: bucket, suffix=".txt")
    made.prepare("0123456789abcdef")
    stager: Stager = made.stager(0, 1, 0)
    stager.write([record(1)], None)
    return stager.finish()


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "bulk"])
@pytest.mark.parametrize(("why", "bucket"), [(why, each) for why, buckets in REFUSED.items() for each in buckets])
def test_a_bucket_cannot_leave_its_place(shelf: Shelf, why: str, bucket: str, rows: bool) -> None:
    with pytest.raises(ConfigurationError, match=why):
        write(shelf, bucket, rows)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "bulk"])
def test_a_bucket_is_a_text(disk: Shelf, rows: bool) -> None:
    with pytest.raises(TypeMismatchError, match="must be a text, and the bucket assigner gave 7"):
        write(disk, 7, rows)


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "bulk"])
@pytest.mark.parametrize("bucket", TAKEN)
def test_other_names_are_taken_as_they_are(disk: Shelf, bucket: str, rows: bool) -> None:
    (piece,) = write(disk, bucket, rows)
    assert piece.bucket == bucket


WORDS = ["fr one", "../../escaped two", ".staging-x three", "de four"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("action", ["fail", "skip"])
def test_a_record_that_names_another_place_is_poison(tmp_path: Path, action: str) -> None:
    """The job fails with its name; or goes on without it, if it was told to."""
    if action == "skip":
        poison = {"beadline__poison__action": "skip", "beadline__poison__tries": 1}
        env = restarting(5, 1, execution__checkpointing__interval="100 ms", **poison)
    else:
        env = environment(1)
    sink = (
        FileSink.for_row_format(str(tmp_path / "a/out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner(lambda text, now: text.split()[0]))
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    )
    env.from_collection(WORDS).sink_to(sink.build())
    if action == "skip":
        env.execute()
    else:
        with pytest.raises(JobExecutionError, match="escaped two") as failure:
            env.execute()
        assert failure.value.culprit is not None
    found = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*-*") if path.is_file()}
    assert {path.parts[:3]: text for path, text in found.items()} == (
        {("a", "out", "fr"): "fr one\n", ("a", "out", "de"): "de four\n"} if action == "skip" else {}
    )
