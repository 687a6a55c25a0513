"""A snapshot may be anybody's: a sink touches its own files only, whatever it is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from beadline.connectors.files import RollingPolicy, RowFileSink, pieces
from beadline.connectors.files.place import publish
from beadline.connectors.sink import Committer
from beadline.connectors.transactions import Fate, TransactionalSink, Transactions
from beadline.state.segments.files import join, local_path, read_file, write_file
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_files import precommit, seal, stage, through_metadata


@pytest.fixture(autouse=True)
def _in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)


def sink_to(base: str, run: str = "0123456789abcdef", **more: Any) -> RowFileSink:
    made = RowFileSink(base, lambda record: f"{record}\n".encode(), lambda record, now: "a b/c", **more)
    made.prepare(run, 3)
    return made


def data_of(sink: RowFileSink) -> Any:
    """What a checkpoint has of it: a part that is ready, and one that is open."""
    sink = replace(sink, policy=RollingPolicy(on_checkpoint=True))
    committer = sink.committer()
    ready = precommit(committer, seal(committer, stage(sink, [1]), 0, False, at_checkpoint=True))
    committer.sealed(stage(sink, [2]), 0, False)
    return through_metadata({"staged": committer.snapshot(), "committables": ready})


def strays(committer: Committer, data: Any, *also: str) -> list[str]:
    return list(committer.strays(data, list(also)))


def with_piece(data: Any, path: str) -> Any:
    return {**data, "staged": {**data["staged"], "parts": [[0, 0, [["", 0, 3, None, path]]]]}}


def with_committable(data: Any, **changes: Any) -> Any:
    return {**data, "committables": [{**data["committables"][0], **changes}]}


# -- what is its own


def test_a_sink_follows_its_own(shelf: Shelf) -> None:
    sink = sink_to(shelf.base)
    assert strays(sink.committer(), data_of(sink)) == []


@pytest.mark.parametrize(
    "other",
    [{"run": "fedcba9876543210"}, {"prefix": "x-y"}, {"suffix": ".csv"}],
    ids=["another job", "another prefix", "another suffix"],
)
def test_and_that_of_another_at_the_same_place(shelf: Shelf, other: dict[str, Any]) -> None:
    assert strays(sink_to(shelf.base).committer(), data_of(sink_to(shelf.base, **other))) == []


def test_a_place_may_be_spelt_otherwise(disk: Shelf, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    data = data_of(sink_to(disk.base))
    assert strays(sink_to(str(tmp_path / "link" / "out")).committer(), data) == []


def test_what_was_published_may_have_been_elsewhere(shelf: Shelf) -> None:
    """The job goes on with another base path from a checkpoint whose output is visible."""
    old = sink_to(shelf.base)
    data = data_of(old)
    publish(data["committables"][0])
    data["staged"]["parts"] = []
    new = sink_to(join(shelf.base, "new"))
    assert strays(new.committer(), data) == []


def test_rows_may_be_staged_next_to_the_snapshot(disk: Shelf, tmp_path: Path) -> None:
    data = {**data_of(sink_to(str(tmp_path / "output"))), "committables": []}
    committer = sink_to(disk.base).committer()
    assert strays(committer, data, str(tmp_path / "output")) == []
    assert len(strays(committer, data, str(tmp_path / "elsewhere"))) == 1


# -- what is not


def test_what_waits_elsewhere_is_not_published(shelf: Shelf) -> None:
    data = data_of(sink_to(shelf.base))
    found = strays(sink_to(join(shelf.base, "new")).committer(), data)
    assert found
    assert all("run the job with the former path, take a savepoint" in why for why in found)


@pytest.mark.parametrize(
    "name",
    [
        "zz.pth",
        "../part-01234567_1-0-0",
        "a/../../part-01234567_1-0-0",
        ".staging-0123456789abcdef/part-01234567_1-0-0",
        ".staging-0123456789abcdef/1/promised-" + "a" * 32,
        "part-01234567_1-0-0/x",
        "part-01234567_1-0-0\n",
    ],
)
def test_a_part_appears_as_a_part_below_the_base_path(shelf: Shelf, name: str) -> None:
    sink = sink_to(shelf.base)
    target = join(shelf.base, name if local_path(shelf.base) is not None else quote(name))
    (why, *_) = strays(sink.committer(), with_committable(data_of(sink), target=target))
    assert "which is no file of the sink" in why


def test_and_nowhere_else(disk: Shelf, tmp_path: Path) -> None:
    sink = sink_to(disk.base)
    for target in ("/home/me/.ssh/part-01234567_1-0-0", f"{disk.base}x/part-01234567_1-0-0", "part-01234567_1-0-0", 7):
        assert strays(sink.committer(), with_committable(data_of(sink), target=target))


def test_only_what_was_made_ready_is_published(disk: Shelf, tmp_path: Path) -> None:
    sink = sink_to(disk.base)
    payload = tmp_path / "payload"
    payload.write_text("x")
    inside = Path(sink.names.staging, "payload")
    inside.write_text("x")
    for source in (payload, inside, Path(f"{sink.names.staging}/../../../payload")):
        (why, *_) = strays(sink.committer(), with_committable(data_of(sink), source=str(source), size=1))
        assert "no sink stages under such a name" in why


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_is_no_staged_file(disk: Shelf, tmp_path: Path, what: str) -> None:
    sink = sink_to(disk.base)
    secret = tmp_path / "x" / ("a" * 32)
    secret.parent.mkdir()
    secret.write_text("key")
    if what == "file":
        piece = Path(sink.names.staging, "a" * 32)
        piece.symlink_to(secret)
    else:
        piece = Path(sink.names.all_staged, "7", "a" * 32)
        piece.parent.symlink_to(secret.parent)
    (why,) = strays(sink.committer(), with_piece(data_of(sink), str(piece)))
    assert str(piece) in why


def test_a_link_to_elsewhere_is_not_published_through(disk: Shelf, tmp_path: Path) -> None:
    data = data_of(sink_to(disk.base))
    (tmp_path / "elsewhere").mkdir()
    Path(disk.base, "a b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"a symbolic link leads from .*/out to .*/elsewhere"):
        publish(data["committables"][0])
    assert list((tmp_path / "elsewhere").iterdir()) == []
    os.unlink(Path(disk.base, "a b"))
    publish(data["committables"][0])
    assert disk.visible() == {"a b/c/part-01234567_3-0-0": "1\n"}


def test_a_link_within_the_base_path_does_no_harm(disk: Shelf) -> None:
    data = data_of(sink_to(disk.base))
    Path(disk.base, "now").mkdir()
    Path(disk.base, "a b").symlink_to("now")
    publish(data["committables"][0])
    assert Path(disk.base, "now/c/part-01234567_3-0-0").read_text() == "1\n"


@pytest.mark.parametrize("bucket", ["..", "a/../..", ".staging-0", "a\n"])
def test_rows_that_a_snapshot_holds_have_a_bucket_too(disk: Shelf, bucket: str) -> None:
    sink = sink_to(disk.base)
    data = {"staged": {"parts": [[0, 0, [[bucket, 0, 1, b"x", None]]]], "counters": []}, "committables": []}
    (why,) = strays(sink.committer(), data)
    assert "can't put a file into the bucket" in why


@pytest.mark.parametrize("shelf", ["s3"], indirect=True)
def test_an_upload_elsewhere_is_not_completed(shelf: Shelf) -> None:
    sink = sink_to(shelf.base)
    data = data_of(sink)
    elsewhere = sink_to(join(shelf.base, "new"))
    assert strays(elsewhere.committer(), {**data, "staged": elsewhere.committer().snapshot()})
    publish(data["committables"][0])
    assert not strays(elsewhere.committer(), {**data, "staged": elsewhere.committer().snapshot()})
    assert strays(sink.committer(), with_committable(data, target="s3://other/part-01234567_1-0-0"))


# -- systems outside


class Nothing(Transactions):
    def write(self, id: str, batches: Any) -> Any:
        list(batches)
        return {"id": id}

    def commit(self, handle: Any) -> Fate:
        return Fate.COMMITTED

    def abort(self, handle: Any) -> None:
        return None


def outside(folder: Path) -> tuple[Committer, Any]:
    sink = TransactionalSink(Nothing(), lambda records, timestamps: records, "orders")
    sink.prepare("0123456789abcdef", 2, str(folder))
    stager = sink.stager(0, 1, 0)
    stager.write([1, 2], None)
    committer = sink.committer()
    committer.sealed(stager.finish(), 0, False)
    committables = precommit(committer, committer.due(True))
    return committer, through_metadata({"staged": committer.snapshot(), "committables": committables})


def test_transactions_of_sinks_are_followed(tmp_path: Path) -> None:
    committer, data = outside(tmp_path)
    assert strays(committer, data) == []


@pytest.mark.parametrize("id", ["payroll", "orders-01234567-2-0-1", "x\n", 7])
def test_those_of_others_are_not(id: Any, tmp_path: Path) -> None:
    committer, data = outside(tmp_path)
    assert strays(committer, with_committable(data, id=id))
    assert strays(committer, with_committable(data, handle={"id": id}))


def test_staged_rows_are_the_sinks_own(tmp_path: Path) -> None:
    committer, data = outside(tmp_path)
    secret = tmp_path / "id_rsa"
    write_file(str(secret), b"key")
    (why,) = strays(committer, with_committable(data, pieces=[["", 0, 3, None, str(secret)]]))
    assert "no sink stages under such a name" in why
    assert read_file(str(secret)) == b"key"
