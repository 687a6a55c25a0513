"""Files that are complete when they appear."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from beadline.connectors import row_files
from beadline.connectors.row_files import Piece, Publication, RollingPolicy, RowFileSink, publish


def encode(record: Any) -> bytes:
    return f"{record}\n".encode()


def bucket(record: Any, now: int) -> str:
    return f"b{record % 2}" if isinstance(record, int) else "text"


@pytest.fixture
def sink(tmp_path: Path) -> RowFileSink:
    made = RowFileSink(f"file://{tmp_path}/out", encode, bucket, RollingPolicy(100, 1000, 500), suffix=".txt")
    made.prepare("0123456789abcdef")
    return made


def stage(sink: RowFileSink, records: list[Any], subtask: int = 0) -> list[Piece]:
    stager = sink.stager(subtask, 1, 0)
    stager.write(records, None)
    return stager.finish()


def visible(sink: RowFileSink) -> dict[str, str]:
    """What a reader of the folder sees."""
    found = {}
    for folder, folders, names in os.walk(sink.base_path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                path = Path(folder) / name
                found[str(path.relative_to(sink.base_path))] = path.read_text()
    return found


def test_staging_shows_nothing(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    small = stage(sink, [1, 2, 3])
    assert [(piece.bucket, piece.data) for piece in small] == [("b1", b"1\n3\n"), ("b0", b"2\n")]
    monkeypatch.setattr(row_files, "_INLINE", 3)
    large = stage(sink, [1, 2, 3])
    assert [piece.data for piece in large] == [None, b"2\n"]
    assert large[0].path is not None
    assert Path(large[0].path).read_bytes() == b"1\n3\n"
    assert visible(sink) == {}


def test_attempts_stage_apart(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    assert stage(sink, [1])[0].path != stage(sink, [1])[0].path


def test_a_part_is_published_at_the_end(sink: RowFileSink) -> None:
    committer = sink.committer()
    assert committer.sealed(stage(sink, [1, 2]), 0, False) == []
    due = committer.sealed(stage(sink, [3], subtask=1) + stage(sink, [5]), 10, True)
    for publication in due:
        committer.publisher()(publication)
    assert visible(sink) == {
        "b1/part-01234567-0-0.txt": "1\n5\n",
        "b0/part-01234567-0-1.txt": "2\n",
        "b1/part-01234567-1-0.txt": "3\n",
    }
    assert committer.sealed([], 20, True) == []


@pytest.mark.parametrize(
    ("steps", "due"),
    [
        ([(0, "x" * 50), (10, "x" * 50)], [0, 1]),  # full
        ([(0, "x"), (400, "x"), (800, "x"), (1000, "x")], [0, 0, 0, 1]),  # open for long
        ([(0, "x"), (499, None), (500, None)], [0, 0, 1]),  # nothing came for a while
        ([(0, "x" * 200), (1, "x"), (2, "x" * 200)], [1, 0, 1]),
    ],
)
def test_parts_roll(sink: RowFileSink, steps: list[tuple[int, str | None]], due: list[int]) -> None:
    committer = sink.committer()
    found = []
    for now, record in steps:
        pieces = stage(sink, [record]) if record is not None else []
        found.append(len(committer.sealed(pieces, now, False)))
    assert found == due


def test_parts_may_wait_for_checkpoints(tmp_path: Path) -> None:
    sink = RowFileSink(str(tmp_path), encode, bucket, RollingPolicy(1, 1, 1, on_checkpoint=True))
    sink.prepare("run")
    committer = sink.committer()
    assert committer.sealed(stage(sink, [1]), 10**6, False) == []
    assert len(committer.sealed([], 10**9, True)) == 1


def test_publishing_twice_is_publishing_once(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 2)
    (due,) = sink.committer().sealed(stage(sink, [1, 3, 5]) + stage(sink, [7]), 0, True)
    publish(due)
    before = visible(sink)
    publish(due)
    assert visible(sink) == before == {"b1/part-01234567-0-0.txt": "1\n3\n5\n7\n"}
    assert not [name for name in os.listdir(f"{sink.base_path}/b1") if "inprogress" in name]


def test_publishing_again_needs_no_staged_pieces(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    committer = sink.committer()
    (due,) = committer.sealed(stage(sink, [1]), 0, True)
    publish(due)
    committer.close()
    publish(due)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "1\n"}


def test_a_publication_that_broke_off_is_done_again(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    (due,) = sink.committer().sealed(stage(sink, [1]), 0, True)

    def broken(*_: Any) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(row_files.os, "replace", broken)
        with pytest.raises(OSError, match="power cut"):
            publish(due)
    assert visible(sink) == {}
    publish(due)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "1\n"}


def test_a_lost_staged_piece_publishes_nothing(sink: RowFileSink) -> None:
    gone = Piece("b", 0, 5, None, f"{sink.staging}/gone")
    with pytest.raises(FileNotFoundError):
        publish(Publication(f"{sink.base_path}/b/part", (Piece("b", 0, 1, b"x", None), gone)))
    assert visible(sink) == {}


def test_closing_removes_what_was_staged(sink: RowFileSink) -> None:
    committer = sink.committer()
    assert os.path.isdir(sink.staging)
    committer.close()
    committer.close()
    assert not os.path.exists(sink.staging)
