"""What is staged, or was made ready, is compared with its checksum before it is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.connectors.files import RollingPolicy, RowFileSink, pieces
from beadline.connectors.files.named import NamedFile, named_files
from beadline.connectors.files.names import staged_path
from beadline.connectors.files.pieces import Checked, Piece, checked_content, content_of, in_file
from beadline.connectors.files.place import publish
from beadline.state.segments.files import read_file, write_file
from beadline.state.segments.version import checksum_of
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_files import precommit, seal, stage, through_metadata


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)
    monkeypatch.setattr(pieces, "_BLOCK", 10)


def encode(record: Any) -> bytes:
    return f"row {record:05}\n".encode()


@pytest.fixture
def sink(shelf: Shelf) -> RowFileSink:
    made = RowFileSink(shelf.base, encode, lambda record, now: "", RollingPolicy(on_checkpoint=True))
    made.prepare("0123456789abcdef")
    return made


def alter(path: str, at: int) -> None:
    data = bytearray(read_file(path))
    data[at] ^= 1
    write_file(path, bytes(data))


@given(rows=st.lists(st.binary(max_size=25), max_size=12), chunk=st.integers(1, 40))
def test_each_block_has_its_checksum(rows: list[bytes], chunk: int) -> None:
    """However the content was cut when it was written."""
    whole = b"".join(rows)
    cut = Checked(whole[at : at + chunk] for at in range(0, len(whole), chunk))
    assert b"".join(cut) == whole
    assert cut.size == len(whole)
    assert cut.checksum == "".join(checksum_of(whole[at : at + 10]) for at in range(0, len(whole), 10))


def test_rows_come_back_as_they_were_staged(sink: RowFileSink) -> None:
    (piece,) = stage(sink, list(range(7)))
    again = Piece(*through_metadata(piece.as_data()))
    assert again == piece
    assert b"".join(content_of([again])) == b"".join(map(encode, range(7)))


@pytest.mark.parametrize("at", [0, 9, 10, 34, 69])
def test_no_block_is_used_before_it_was_compared(sink: RowFileSink, at: int) -> None:
    (piece,) = stage(sink, list(range(7)))
    assert piece.path is not None
    alter(piece.path, at)
    with pytest.raises(OSError, match="is not what was staged"):
        list(content_of([piece]))
    content: Iterator[bytes] = checked_content(piece.path, piece.size, piece.checksum)
    good = [next(content) for _ in range(at // 10)]
    assert b"".join(good) == b"".join(map(encode, range(7)))[: at // 10 * 10]


def test_an_altered_piece_makes_nothing_ready(sink: RowFileSink, shelf: Shelf) -> None:
    (piece,) = stage(sink, list(range(7)))
    assert piece.path is not None
    alter(piece.path, 20)
    parts = seal(sink.committer(), [piece], 0, True)
    with pytest.raises(OSError, match="is not what was staged"):
        precommit(sink.committer(), parts)
    assert (shelf.visible(), shelf.ready()) == ({}, [])


def test_a_piece_of_an_earlier_version_has_no_checksum(disk: Shelf, tmp_path: Path) -> None:
    Path(disk.base).mkdir()
    old = in_file(disk.base, "", 0, [b"as it was"])
    as_data = old.as_data()[:5]
    assert b"".join(content_of([Piece(*as_data)])) == b"as it was"
    (named,) = named_files({"staged": {"parts": [[0, 0, [as_data]]]}, "committables": []})
    assert named.checksum is None


def test_what_is_small_is_no_file(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """And savepoints, which hold all data inline, are those of before."""
    monkeypatch.setattr(pieces, "_INLINE", 100)
    (piece,) = stage(sink, [1])
    assert len(piece.as_data()) == 5


# -- what a snapshot names


def a_snapshot(sink: RowFileSink) -> tuple[Any, Piece]:
    """The data of a checkpoint with a part that is ready and one that is open, and the open one's piece."""
    committer = sink.committer()
    ready = precommit(committer, seal(committer, stage(sink, list(range(7))), 0, False, at_checkpoint=True))
    (piece,) = stage(sink, [7, 8, 9])
    committer.sealed([piece], 0, False)
    return through_metadata({"staged": committer.snapshot(), "committables": ready}), piece


def problems(data: Any) -> list[str]:
    return [why for file in named_files(data) if (why := file.problem())]


def test_all_of_it_is_read(sink: RowFileSink, shelf: Shelf) -> None:
    data, piece = a_snapshot(sink)
    assert problems(data) == []
    assert {file.size for file in named_files(data)} == ({70, 30} if shelf.base[:2] != "s3" else {30})
    assert piece.path is not None
    alter(piece.path, 29)
    (why,) = problems(data)
    assert why.startswith("is not what was staged")
    write_file(piece.path, b"x")
    assert problems(data) == ["the file has 1 bytes and should have 30"]
    Path(piece.path).unlink() if shelf.base[0] == "/" else sink.committer()._place.remove(piece.path)
    assert problems(data) == ["the file is missing"]


def test_what_was_made_ready_is_read_until_it_is_published(disk: Shelf) -> None:
    sink = RowFileSink(disk.base, encode, lambda record, now: "", RollingPolicy(on_checkpoint=True))
    sink.prepare("0123456789abcdef")
    data, _ = a_snapshot(sink)
    (ready,) = data["committables"]
    alter(ready["source"], 69)
    (why,) = problems(data)
    assert why.startswith("is not what was staged: the checksum of 10 bytes at 60")
    alter(ready["source"], 69)
    publish(ready)
    assert problems(data) == []


def test_what_was_made_ready_and_is_cut_short_is_not_published(disk: Shelf) -> None:
    sink = RowFileSink(disk.base, encode, lambda record, now: "", RollingPolicy(on_checkpoint=True))
    sink.prepare("0123456789abcdef")
    (ready,) = a_snapshot(sink)[0]["committables"]
    write_file(ready["source"], b"row")
    with pytest.raises(OSError, match="has 3 bytes, and was written with 70"):
        publish(ready)
    assert disk.visible() == {}


def test_rows_of_a_transaction_that_is_ready_are_spare(disk: Shelf) -> None:
    piece = ["", 0, 5, None, "/a/.staging-0/1/" + "a" * 32, "b" * 16]
    data = {"staged": None, "committables": [{"pieces": [piece], "handle": {"id": 1}}, {"pieces": [piece]}]}
    assert [file.is_spare for file in named_files(data)] == [True, False]


@pytest.mark.parametrize("data", [None, [], [("part", 1, b"")], {}, {"staged": {"frames": [1]}, "committables": []}])
def test_sinks_that_stage_no_files_name_none(data: Any) -> None:
    assert list(named_files(data)) == []


@pytest.mark.parametrize(
    "data",
    [
        {"staged": {"parts": 5}},
        {"staged": {"parts": [[0, 0, [["", 0, 1, None]]]]}},
        {"staged": {"parts": [[0, 0, [["", 0, 1, None, None]]]]}},
        {"staged": {"parts": [[0, 0, [["", 0, "1", None, "/x"]]]]}},
        {"staged": {"parts": [[0, 0, [["", 0, 1, None, "/x", 7]]]]}},
        {"staged": {"parts": [], "waiting": [1]}},
        {"committables": [{"source": "/x"}]},
        {"committables": [{"source": ["/x"], "size": 1}]},
        {"committables": 7},
    ],
)
def test_what_no_sink_writes_is_refused_with_a_sentence(data: Any) -> None:
    with pytest.raises(ValueError, match="what a sink has staged is not well formed"):
        list(named_files(data))


@pytest.mark.parametrize(
    "path",
    [
        "/home/me/.ssh/id_rsa",
        "/a/.staging-0/1/id_rsa",
        "/a/../b/.staging-0/1/" + "a" * 32,
        "/a/.staging-0/../1/" + "a" * 32,
        "/a/.staging-0/1/" + "a" * 32 + "/../x",
        "/a/.staging-x/1/" + "a" * 32,
        "/a\n/.staging-0/1/" + "a" * 32,
        "s3://b/a/.staging-0/1/x?y=" + "a" * 32,
    ],
)
def test_what_no_sink_stages_is_not_even_looked_at(path: str) -> None:
    assert NamedFile(path, 1, None).problem().startswith("no sink stages output under such a name")
    assert NamedFile(path, 1, None, is_ready=True).problem() != ""


def test_a_staged_name_may_have_a_query() -> None:
    found = staged_path("s3://b/a/.staging-0/1/ready-" + "a" * 32 + "?endpoint_override=localhost:1")
    assert found == ("s3://b/a?endpoint_override=localhost:1", ".staging-0/1/ready-" + "a" * 32, True)
