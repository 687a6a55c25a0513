"""Files that are complete when they appear."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.metadata import from_plain, to_plain
from beadline.connectors import row_files
from beadline.connectors.row_files import Piece, RollingPolicy, RowFileSink, publish
from beadline.connectors.sink import Committer


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


def seal(committer: Committer, pieces: list[Piece], now: int, final: bool, at_checkpoint: bool = False) -> list[Any]:
    committer.sealed(pieces, now, final)
    return committer.due(at_checkpoint)


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
    assert seal(committer, stage(sink, [1, 2]), 0, False) == []
    for committable in seal(committer, stage(sink, [3], subtask=1) + stage(sink, [5]), 10, True):
        committer.publisher()(committable)
    assert visible(sink) == {
        "b1/part-01234567-0-0.txt": "1\n5\n",
        "b0/part-01234567-0-1.txt": "2\n",
        "b1/part-01234567-1-0.txt": "3\n",
    }
    assert seal(committer, [], 20, True) == []


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
        found.append(len(seal(committer, pieces, now, False)))
    assert found == due


def test_parts_may_wait_for_checkpoints(tmp_path: Path) -> None:
    sink = RowFileSink(str(tmp_path), encode, bucket, RollingPolicy(1, 1, 1, on_checkpoint=True))
    sink.prepare("run")
    committer = sink.committer()
    assert seal(committer, stage(sink, [1]), 10**6, False) == []
    assert len(seal(committer, stage(sink, [3]), 10**9, False, at_checkpoint=True)) == 1
    assert seal(committer, [], 10**9, False, at_checkpoint=True) == [], "each once"
    assert seal(committer, stage(sink, [5]), 10**9, False) == []
    assert len(seal(committer, [], 10**9, True)) == 1


def test_publishing_twice_is_publishing_once(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 2)
    (due,) = seal(sink.committer(), stage(sink, [1, 3, 5]) + stage(sink, [7]), 0, True)
    publish(due)
    before = visible(sink)
    publish(due)
    assert visible(sink) == before == {"b1/part-01234567-0-0.txt": "1\n3\n5\n7\n"}
    assert not [name for name in os.listdir(f"{sink.base_path}/b1") if "inprogress" in name]


def test_publishing_again_needs_no_staged_pieces(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    committer = sink.committer()
    (due,) = seal(committer, stage(sink, [1]), 0, True)
    publish(due)
    committer.close(discard=True)
    publish(due)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "1\n"}


def test_a_publication_that_broke_off_is_done_again(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    (due,) = seal(sink.committer(), stage(sink, [1]), 0, True)

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
    pieces = [["b", 0, 1, b"x", None], ["b", 0, 5, None, f"{sink.staging}/gone"]]
    with pytest.raises(FileNotFoundError):
        publish({"target": f"{sink.base_path}/b/part", "pieces": pieces})
    assert visible(sink) == {}
    assert os.listdir(f"{sink.base_path}/b") == []


def test_what_is_staged_goes_only_if_nobody_resumes(sink: RowFileSink) -> None:
    committer = sink.committer()
    committer.close(discard=False)
    assert os.path.isdir(sink.staging)
    committer.close(discard=True)
    committer.close(discard=True)
    assert not os.path.exists(sink.staging)


# -- checkpoints


@pytest.fixture(params=[0, 2, 1 << 16], ids=["in files", "mixed", "inline"])
def inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(row_files, "_INLINE", request.param)
    return int(request.param)


def through_metadata(value: Any) -> Any:
    return from_plain(json.loads(json.dumps(to_plain(value, "test"))))


def test_snapshots_are_plain_data_and_give_the_same_committer(sink: RowFileSink, inline: int) -> None:
    before = sink.committer()
    (full,) = seal(before, stage(sink, ["x" * 200]), 5, False)
    before.sealed(stage(sink, [1, 2, 3]) + stage(sink, [4], subtask=1), 7, False)
    before.sealed(stage(sink, [5]), 9, False)
    snapshot = before.snapshot()
    before.make_durable(snapshot, [full])
    after = sink.committer()
    after.restore(through_metadata(snapshot), through_metadata([full]))
    assert after.snapshot() == snapshot == before.snapshot()
    both = [seal(committer, [], 10, True) for committer in (before, after)]
    assert both[0] == both[1]
    for committable in [full, *both[1]]:
        publish(through_metadata(committable))
    assert visible(sink) == {
        "text/part-01234567-0-0.txt": "x" * 200 + "\n",
        "b1/part-01234567-0-1.txt": "1\n3\n5\n",
        "b0/part-01234567-0-2.txt": "2\n",
        "b0/part-01234567-1-0.txt": "4\n",
    }


def test_going_back_takes_later_parts_away_and_uses_their_names_again(sink: RowFileSink, inline: int) -> None:
    first = sink.committer()
    (kept,) = seal(first, stage(sink, ["x" * 200]), 0, False)
    publish(kept)
    first.sealed(stage(sink, [1]), 1, False)
    snapshot = first.snapshot()
    for committable in seal(first, stage(sink, [3]) + stage(sink, [6], subtask=1), 2, True):
        publish(committable)
    Path(sink.base_path, "b1", "part-99999999-0-7.txt").write_text("another job's\n")
    Path(sink.base_path, "b1", ".part-01234567-0-0.txt.inprogress.0a1b2c3d").write_text("broke off")
    assert len(visible(sink)) == 4

    again = sink.committer()
    again.restore(through_metadata(snapshot), [kept])
    publish(kept)
    assert visible(sink) == {
        "text/part-01234567-0-0.txt": "x" * 200 + "\n",
        "b1/part-99999999-0-7.txt": "another job's\n",
    }
    assert os.listdir(f"{sink.base_path}/b1") == ["part-99999999-0-7.txt"]
    (other,) = seal(again, stage(sink, [9]), 3, True)
    publish(other)
    assert visible(sink)["b1/part-01234567-0-1.txt"] == "1\n9\n"


def test_pieces_stay_as_long_as_a_checkpoint_needs_them(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    committer = sink.committer()
    committer.sealed(stage(sink, [1]), 0, False)
    old = committer.snapshot()
    (due,) = seal(committer, stage(sink, [3]), 1, True)
    publish(due)
    committer.tidy([(None, [due])], idle=False)
    assert len(os.listdir(sink.staging)) == 2, "not yet visible"
    committer.tidy([(old, [])], idle=False)
    assert len(os.listdir(sink.staging)) == 1, "the job may go back to the older one"
    committer.restore(old, [])
    (again,) = seal(committer, [], 2, True)
    publish(again)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "1\n"}
    committer.tidy([], idle=False)
    assert os.listdir(sink.staging) == []


def test_tidying_leaves_what_tasks_are_staging(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    committer = sink.committer()
    (lost,) = stage(sink, [1])
    running = stage(sink, [3])
    committer.sealed(stage(sink, [5]), 0, False)
    committer.tidy([], idle=False)
    assert len(os.listdir(sink.staging)) == 3
    committer.sealed(running, 1, False)
    committer.tidy([], idle=True)
    assert len(os.listdir(sink.staging)) == 2
    assert not os.path.exists(str(lost.path))
    for committable in seal(committer, [], 2, True):
        publish(committable)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "5\n3\n"}


def test_another_jobs_pieces_are_not_removed(sink: RowFileSink, tmp_path: Path, inline: int) -> None:
    other = RowFileSink(str(tmp_path / "out"), encode, bucket, suffix=".txt")
    other.prepare("fedcba9876543210")
    before = sink.committer()
    before.sealed(stage(sink, [1]), 0, False)
    files = os.listdir(sink.staging)
    after = other.committer()
    after.restore(before.snapshot(), [])
    (due,) = seal(after, [], 1, True)
    publish(due)
    after.tidy([], idle=True)
    assert os.listdir(sink.staging) == files
    assert visible(sink) == {"b1/part-fedcba98-0-0.txt": "1\n"}


def test_a_fenced_driver_that_goes_back_leaves_the_next_ones_files_alone(
    sink: RowFileSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused when it was about to restore, and knows nothing of the driver that has the job now."""
    monkeypatch.setattr(row_files, "_INLINE", 0)
    fenced, successor = (replace(sink) for _ in range(2))
    fenced.prepare(sink.run, 4)
    successor.prepare(sink.run, 5)
    before = fenced.committer()
    before.sealed(stage(fenced, [1]), 0, False)
    snapshot = before.snapshot()
    (later,) = seal(before, stage(fenced, [3]), 1, True)
    publish(later)
    assert visible(sink) == {"b1/part-01234567_4-0-0.txt": "1\n3\n"}

    after = successor.committer()
    after.restore(through_metadata(snapshot), [])
    after.tidy([(snapshot, [])], idle=True)
    (due,) = seal(after, stage(successor, [5]), 2, True)
    publish(due)
    after.sealed(stage(successor, [7]), 3, False)
    Path(sink.base_path, "b1", ".part-01234567_5-0-1.txt.inprogress.0a1b2c3d").write_text("is being written")
    before.restore(through_metadata(snapshot), [])
    before.tidy([(snapshot, [])], idle=True)

    assert visible(sink) == {"b1/part-01234567_5-0-0.txt": "1\n5\n"}
    assert len(os.listdir(f"{sink.base_path}/b1")) == 2
    (rest,) = seal(after, [], 4, True)
    publish(rest)
    assert visible(sink)["b1/part-01234567_5-0-1.txt"] == "7\n"


def test_a_savepoint_needs_no_staged_pieces(sink: RowFileSink, inline: int) -> None:
    committer = sink.committer()
    (full,) = seal(committer, stage(sink, ["x" * 200]), 0, False)
    committer.sealed(stage(sink, [1, 2]), 1, False)
    staged, committables = committer.portable(committer.snapshot(), [full])
    committer.close(discard=True)
    os.makedirs(sink.staging)
    after = sink.committer()
    after.restore(through_metadata(staged), through_metadata(committables))
    for committable in [*committables, *seal(after, [], 2, True)]:
        publish(committable)
    assert sorted(visible(sink).values()) == ["1\n", "2\n", "x" * 200 + "\n"]


def test_what_is_lost_can_not_become_durable(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 0)
    committer = sink.committer()
    (piece,) = stage(sink, [1])
    committer.sealed([piece], 0, False)
    os.unlink(str(piece.path))
    with pytest.raises(FileNotFoundError):
        committer.make_durable(committer.snapshot(), [])


def test_many_small_pieces_become_one_file(sink: RowFileSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "_INLINE", 10)
    committer = sink.committer()
    for number in range(1, 41, 2):
        committer.sealed(stage(sink, [number]), 0, False)
        data = [piece[3] for part in committer.snapshot()["parts"] for piece in part[2]]
        assert sum(len(d) for d in data if d is not None) <= 10
    for committable in seal(committer, [], 0, True):
        publish(committable)
    assert visible(sink) == {"b1/part-01234567-0-0.txt": "".join(f"{n}\n" for n in range(1, 41, 2))}
