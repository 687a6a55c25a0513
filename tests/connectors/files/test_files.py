"""Files that are complete when they appear, and appear once: the same promises in every place."""

from __future__ import annotations

import json
import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.metadata import from_plain, to_plain
from beadline.connectors.files import RollingPolicy, RowFileSink, pieces, renaming, s3
from beadline.connectors.files.pieces import Piece
from beadline.connectors.files.place import publish
from beadline.connectors.sink import Committer, Former, Held
from beadline.state.segments.files import delete_file, join, read_file
from tests.connectors.files.conftest import Shelf


def encode(record: Any) -> bytes:
    return f"{record}\n".encode()


def bucket(record: Any, now: int) -> str:
    return f"b{record % 2}" if isinstance(record, int) else "text"


@pytest.fixture
def sink(shelf: Shelf) -> RowFileSink:
    made = RowFileSink(shelf.base, encode, bucket, RollingPolicy(100, 1000, 500), suffix=".txt")
    made.prepare("0123456789abcdef")
    return made


def stage(sink: RowFileSink, records: list[Any], subtask: int = 0) -> list[Piece]:
    stager = sink.stager(subtask, 1, 0)
    stager.write(records, None)
    return stager.finish()


def seal(committer: Committer, pieces: list[Piece], now: int, final: bool, at_checkpoint: bool = False) -> list[Any]:
    committer.sealed(pieces, now, final)
    return committer.due(at_checkpoint)


def precommit(committer: Committer, parts: list[Any]) -> list[Any]:
    """As tasks do it: the function travels, and so do parts and committables."""
    function = pickle.loads(pickle.dumps(committer.precommitter()))
    return [through_metadata(function(through_metadata(part))) for part in parts]


def publish_ready(committer: Committer, committables: list[Any]) -> None:
    """As tasks do it: one by one, with a function that travels."""

    def call(function: Any, items: list[Any], weight: Any) -> list[Any]:
        return [pickle.loads(pickle.dumps(function))(item) for item in items]

    assert committer.publish(committables, call, recovering=False) == []


def publish_all(committer: Committer, parts: list[Any]) -> None:
    publish_ready(committer, precommit(committer, parts))


def needs(snapshot: Any, *committables: Any) -> Held:
    return Held(snapshot, [], list(committables))


def through_metadata(value: Any) -> Any:
    return from_plain(json.loads(json.dumps(to_plain(value, "test"))))


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)


@pytest.fixture(params=[0, 2, 1 << 16], ids=["in files", "mixed", "inline"])
def inline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(pieces, "_INLINE", request.param)
    return int(request.param)


# -- steps


def test_staging_shows_nothing(sink: RowFileSink, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    small = stage(sink, [1, 2, 3])
    assert [(piece.bucket, piece.data) for piece in small] == [("b1", b"1\n3\n"), ("b0", b"2\n")]
    monkeypatch.setattr(pieces, "_INLINE", 3)
    large = stage(sink, [1, 2, 3])
    assert [piece.data for piece in large] == [None, b"2\n"]
    assert large[0].path is not None
    assert read_file(large[0].path) == b"1\n3\n"
    assert shelf.visible() == {}


@pytest.mark.usefixtures("in_files")
def test_attempts_stage_apart(sink: RowFileSink) -> None:
    assert stage(sink, [1])[0].path != stage(sink, [1])[0].path


def test_a_part_is_published_at_the_end(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    assert seal(committer, stage(sink, [1, 2]), 0, False) == []
    due = seal(committer, stage(sink, [3], subtask=1) + stage(sink, [5]), 10, True)
    ready = precommit(committer, due)
    assert shelf.visible() == {}
    assert len(shelf.ready()) == 3
    for committable in ready:
        publish(committable)
    assert shelf.visible() == {
        "b1/part-01234567-0-0.txt": "1\n5\n",
        "b0/part-01234567-0-1.txt": "2\n",
        "b1/part-01234567-1-0.txt": "3\n",
    }
    assert shelf.ready() == []
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
@pytest.mark.parametrize("shelf", ["local"], indirect=True)
def test_parts_roll(sink: RowFileSink, steps: list[tuple[int, str | None]], due: list[int]) -> None:
    committer = sink.committer()
    found = []
    for now, record in steps:
        staged = stage(sink, [record]) if record is not None else []
        found.append(len(seal(committer, staged, now, False)))
    assert found == due


def test_parts_may_wait_for_checkpoints(disk: Shelf) -> None:
    sink = RowFileSink(disk.base, encode, bucket, RollingPolicy(1, 1, 1, on_checkpoint=True))
    sink.prepare("run")
    committer = sink.committer()
    assert seal(committer, stage(sink, [1]), 10**6, False) == []
    assert len(seal(committer, stage(sink, [3]), 10**9, False, at_checkpoint=True)) == 1
    assert seal(committer, [], 10**9, False, at_checkpoint=True) == [], "each once"
    assert seal(committer, stage(sink, [5]), 10**9, False) == []
    assert len(seal(committer, [], 10**9, True)) == 1


def test_an_empty_part_is_an_empty_file(sink: RowFileSink, shelf: Shelf) -> None:
    sink = replace(sink, encode=lambda record: b"")
    due = seal(committer := sink.committer(), stage(sink, [1]), 0, True)
    publish_ready(committer, list(map(sink.committer().precommitter(), due)))
    assert shelf.visible() == {"b1/part-01234567-0-0.txt": ""}


def test_a_large_part_is_put_together_of_many_chunks(
    sink: RowFileSink, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_BLOCK", 1 << 20)
    monkeypatch.setattr(s3, "_CHUNK", 5 << 20)
    committer = sink.committer()
    lines = [f"{number}{'x' * 99_990}" for number in range(130)]  # 13 MB
    due = seal(committer, stage(sink, lines[:50]) + stage(sink, lines[50:60]) + stage(sink, lines[60:]), 0, True)
    publish_all(committer, due)
    assert shelf.visible() == {"text/part-01234567-0-0.txt": "".join(f"{line}\n" for line in lines)}


def test_names_that_a_uri_would_mistake(sink: RowFileSink, shelf: Shelf) -> None:
    sink = replace(sink, bucket_of=lambda record, now: "day=1?/50%/ä b")
    publish_all(sink.committer(), seal(committer := sink.committer(), stage(sink, [1]), 0, True))
    (due,) = seal(committer, stage(sink, [3]), 0, True)
    assert due["target"].count("part-01234567-0-1.txt") == 1
    names = {name.rpartition("/")[2]: name for name in shelf.visible_names()}
    assert names["part-01234567-0-0.txt"].startswith("day=1?/50%/ä b/")


# -- what is published once


@pytest.mark.parametrize("becomes", ["stays", "is taken away", "is emptied"])
def test_publishing_again_leaves_what_was_published_alone(
    sink: RowFileSink, shelf: Shelf, inline: int, becomes: str
) -> None:
    committer = sink.committer()
    (due,) = precommit(committer, seal(committer, stage(sink, [1, 3, 5]) + stage(sink, [7]), 0, True))
    publish(due)
    expected = {"b1/part-01234567-0-0.txt": "1\n3\n5\n7\n"}
    assert shelf.visible() == expected
    if becomes == "is taken away":
        shelf.take()
        expected = {}
    elif becomes == "is emptied":
        shelf.put("b1/part-01234567-0-0.txt", "")
        expected["b1/part-01234567-0-0.txt"] = ""
    publish(due)
    committer.close(discard=True)
    publish(due)
    assert shelf.visible() == expected


def test_of_two_who_publish_at_once_one_wins(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    due = precommit(committer, seal(committer, [p for s in range(6) for p in stage(sink, [1], s)], 0, True))
    together = threading.Barrier(3)
    errors: list[BaseException] = []

    def attempt() -> None:
        together.wait()
        try:
            for committable in due:
                publish(committable)
        except BaseException as error:
            errors.append(error)

    attempts = [threading.Thread(target=attempt) for _ in range(3)]
    for thread in attempts:
        thread.start()
    for thread in attempts:
        thread.join()
    assert errors == []
    assert list(shelf.visible().values()) == ["1\n"] * 6
    assert shelf.ready() == []


def test_an_attempt_that_wakes_late_leaves_something_that_nobody_names(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    parts = seal(committer, stage(sink, [1]), 0, True)
    (due,) = precommit(committer, parts)
    precommit(committer, parts)  # an attempt thought dead
    assert len(shelf.ready()) == 2
    committer.sweep([due])
    assert len(shelf.ready()) == 1
    publish(due)
    precommit(committer, parts)  # and another, after the part has appeared and was taken away
    assert shelf.take() == {"b1/part-01234567-0-0.txt": "1\n"}
    committer.sweep([])
    assert (shelf.ready(), shelf.visible()) == ([], {})


def test_what_is_not_ours_is_not_replaced(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    (due,) = precommit(committer, seal(committer, stage(sink, [1]), 0, True))
    shelf.put("b1/part-01234567-0-0.txt", "a stranger's\n")
    with pytest.raises(
        FileExistsError, match=r"can't be published with 2 bytes: .* of 13 bytes.* is in its place. Move it away"
    ):
        publish(due)
    assert shelf.take() == {"b1/part-01234567-0-0.txt": "a stranger's\n"}
    publish(due)
    assert shelf.visible() == {"b1/part-01234567-0-0.txt": "1\n"}


def test_a_consumer_may_remove_folders_that_are_empty(disk: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = RowFileSink(disk.base, encode, bucket)
    sink.prepare("0123456789abcdef")
    committer = sink.committer()
    (due,) = precommit(committer, seal(committer, stage(sink, [1]), 0, True))
    folder = Path(disk.base, "b1")
    folder.mkdir()
    rename, times = renaming.rename, iter(range(2))

    def meanwhile(source: str, target: str) -> None:
        if next(times, None) is not None:
            folder.rmdir()
        rename(source, target)

    monkeypatch.setattr(renaming, "rename", meanwhile)
    publish(due)
    assert disk.take() == {"b1/part-01234567-0-0": "1\n"}
    folder.rmdir()
    publish(due)
    assert not folder.exists(), "nor does the folder come back"


def test_a_file_system_that_is_away_proves_nothing(disk: Shelf) -> None:
    sink = RowFileSink(disk.base, encode, bucket)
    sink.prepare("0123456789abcdef")
    committer = sink.committer()
    (due,) = precommit(committer, seal(committer, stage(sink, [1]), 0, True))
    os.rename(disk.base, f"{disk.base}-away")
    with pytest.raises(
        FileNotFoundError, match=r"nobody can tell whether ready-\w+ was published\. Is the file system"
    ):
        publish(due)
    os.rename(f"{disk.base}-away", disk.base)
    publish(due)
    assert disk.visible() == {"b1/part-01234567-0-0": "1\n"}


def test_a_publication_that_broke_off_is_done_again(disk: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = RowFileSink(disk.base, encode, bucket)
    sink.prepare("0123456789abcdef")
    committer = sink.committer()
    (due,) = precommit(committer, seal(committer, stage(sink, [1]), 0, True))

    def broken(*_: Any) -> None:
        raise OSError("power cut")

    for name in ("rename", "sync"):
        with monkeypatch.context() as patch:
            patch.setattr(renaming, name, broken)
            with pytest.raises(OSError, match="power cut"):
                publish(due)
        assert (disk.visible() == {}) == (name == "rename")
    assert disk.take() == {"b1/part-01234567-0-0": "1\n"}
    publish(due)
    assert disk.visible() == {}, "it was renamed before the power cut"


def test_a_lost_staged_piece_makes_nothing_ready(sink: RowFileSink, shelf: Shelf) -> None:
    lost = [["b", 0, 1, b"x", None], ["b", 0, 5, None, join(sink.names.staging, "gone")]]
    with pytest.raises(FileNotFoundError):
        sink.committer().precommitter()({"target": join(sink.base_path, "b", "part"), "pieces": lost})
    assert (shelf.visible(), shelf.ready()) == ({}, [])


@pytest.mark.usefixtures("in_files")
def test_a_staged_piece_that_is_cut_short_makes_nothing_ready(sink: RowFileSink, shelf: Shelf) -> None:
    (piece,) = stage(sink, [1])
    pieces_of_part = [replace(piece, size=5).as_data()]
    with pytest.raises(OSError, match="was staged with 5 bytes, and has 2"):
        sink.committer().precommitter()({"target": join(sink.base_path, "b", "part"), "pieces": pieces_of_part})
    assert shelf.ready() == []


@pytest.mark.usefixtures("in_files")
def test_what_is_staged_goes_only_if_nobody_resumes(sink: RowFileSink, shelf: Shelf) -> None:
    committer, later = sink.committer(), replace(sink)
    later.prepare(sink.run, sink.epoch + 1)
    parts = seal(committer, stage(sink, [1]), 0, True)
    precommit(committer, parts)
    stage(later, [3])
    committer.close(discard=False)
    assert (len(shelf.staged()), len(shelf.ready())) == (2, 1)
    committer.close(discard=True)
    committer.close(discard=True)
    assert (len(shelf.staged()), shelf.ready()) == (1, []), "a later driver's"
    later.committer().close(discard=True)
    assert shelf.staged() == []


# -- checkpoints


def test_snapshots_are_plain_data_and_give_the_same_committer(sink: RowFileSink, shelf: Shelf, inline: int) -> None:
    before = sink.committer()
    (full,) = precommit(before, seal(before, stage(sink, ["x" * 200]), 5, False))
    before.sealed(stage(sink, [1, 2, 3]) + stage(sink, [4], subtask=1), 7, False)
    before.sealed(stage(sink, [5]), 9, False)
    snapshot = before.snapshot()
    before.make_durable(snapshot)
    after = sink.committer()
    after.restore(through_metadata(snapshot), [needs(snapshot, full)])
    assert after.snapshot() == snapshot == before.snapshot()
    both = [seal(committer, [], 10, True) for committer in (before, after)]
    assert both[0] == both[1]
    publish(full)
    publish_all(after, both[1])
    assert shelf.visible() == {
        "text/part-01234567-0-0.txt": "x" * 200 + "\n",
        "b1/part-01234567-0-1.txt": "1\n3\n5\n",
        "b0/part-01234567-0-2.txt": "2\n",
        "b0/part-01234567-1-0.txt": "4\n",
    }


def test_going_back_takes_later_parts_away_and_uses_their_names_again(
    sink: RowFileSink, shelf: Shelf, inline: int
) -> None:
    first = sink.committer()
    (kept,) = precommit(first, seal(first, stage(sink, ["x" * 200]), 0, False))
    publish(kept)
    first.sealed(stage(sink, [1]), 1, False)
    snapshot = first.snapshot()
    first.sealed(stage(sink, [3]) + stage(sink, [6], subtask=1), 2, True)
    later = precommit(first, first.due(False))
    for committable in later[:1]:
        publish(committable)
    shelf.put("b1/part-99999999-0-7.txt", "another job's\n")
    assert len(shelf.visible()) == 3

    again = sink.committer()
    again.restore(through_metadata(snapshot), [needs(snapshot, kept)])
    publish(kept)
    for committable in later:
        publish(committable)  # an attempt that wakes late can't bring back what was taken back
    assert shelf.visible() == {
        "text/part-01234567-0-0.txt": "x" * 200 + "\n",
        "b1/part-99999999-0-7.txt": "another job's\n",
    }
    publish_all(again, seal(again, stage(sink, [9]), 3, True))
    assert shelf.visible()["b1/part-01234567-0-1.txt"] == "1\n9\n"
    assert shelf.ready() == []


def test_what_a_checkpoint_made_ready_stays_until_it_is_published(sink: RowFileSink, shelf: Shelf) -> None:
    first = sink.committer()
    (due,) = precommit(first, seal(first, stage(sink, [1]), 0, True))
    snapshot = first.snapshot()
    again = replace(sink)
    again.prepare(sink.run, 1)
    committer = again.committer()
    committer.restore(through_metadata(snapshot), [needs(snapshot, due)])
    committer.tidy([needs(snapshot, due)], idle=True)
    committer.sweep([])
    assert len(shelf.ready()) == 1
    publish(due)
    assert shelf.visible() == {"b1/part-01234567-0-0.txt": "1\n"}


@pytest.mark.usefixtures("in_files")
def test_pieces_stay_as_long_as_a_checkpoint_needs_them(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    committer.sealed(stage(sink, [1]), 0, False)
    old = committer.snapshot()
    (part,) = seal(committer, stage(sink, [3]), 1, True)
    committer.tidy([Held(None, [part], [])], idle=False)
    assert len(shelf.staged()) == 2, "not yet pre-committed"
    (due,) = precommit(committer, [part])
    publish(due)
    committer.tidy([needs(old)], idle=False)
    assert len(shelf.staged()) == 1, "the job may go back to the older one"
    committer.restore(old, [needs(old)])
    publish_all(committer, seal(committer, [], 2, True))
    assert shelf.visible() == {"b1/part-01234567-0-1.txt": "1\n"}
    committer.tidy([], idle=False)
    assert shelf.staged() == []


@pytest.mark.usefixtures("in_files")
def test_tidying_leaves_what_tasks_are_staging(sink: RowFileSink, shelf: Shelf) -> None:
    committer = sink.committer()
    stage(sink, [1])
    running = stage(sink, [3])
    committer.sealed(stage(sink, [5]), 0, False)
    committer.tidy([], idle=False)
    assert len(shelf.staged()) == 3
    committer.sealed(running, 1, False)
    committer.tidy([], idle=True)
    assert len(shelf.staged()) == 2, "one was of an attempt that was lost"
    publish_all(committer, seal(committer, [], 2, True))
    assert shelf.visible() == {"b1/part-01234567-0-0.txt": "5\n3\n"}


def test_another_jobs_pieces_are_not_removed(sink: RowFileSink, shelf: Shelf, inline: int) -> None:
    other = RowFileSink(shelf.base, encode, bucket, suffix=".txt")
    other.prepare("fedcba9876543210")
    before = sink.committer()
    before.sealed(stage(sink, [1]), 0, False)
    files = shelf.staged()
    after = other.committer()
    after.restore(before.snapshot(), [needs(before.snapshot())])
    publish_all(after, seal(after, [], 1, True))
    after.tidy([], idle=True)
    after.close(discard=True)
    assert shelf.staged() == files
    assert shelf.visible() == {"b1/part-fedcba98-0-0.txt": "1\n"}


@pytest.mark.usefixtures("in_files")
def test_a_fenced_driver_that_goes_back_leaves_the_next_ones_files_alone(sink: RowFileSink, shelf: Shelf) -> None:
    """It was paused when it was about to restore, and knows nothing of the driver that has the job now."""
    fenced, successor = (replace(sink) for _ in range(2))
    fenced.prepare(sink.run, 4)
    successor.prepare(sink.run, 5, former=[Former(sink.run, "", 4, True)])
    before = fenced.committer()
    before.sealed(stage(fenced, [1]), 0, False)
    snapshot = before.snapshot()
    publish_all(before, seal(before, stage(fenced, [3]), 1, True))
    assert shelf.visible() == {"b1/part-01234567_4-0-0.txt": "1\n3\n"}

    after = successor.committer()
    after.restore(through_metadata(snapshot), [needs(snapshot)], 4)
    after.tidy([needs(snapshot)], idle=True)
    publish_all(after, seal(after, stage(successor, [5]), 2, True))
    (ready,) = precommit(after, seal(after, stage(successor, [7]), 3, True))
    before.restore(through_metadata(snapshot), [needs(snapshot)])
    before.tidy([needs(snapshot)], idle=True)
    before.sweep([])
    before.close(discard=True)

    assert shelf.visible() == {"b1/part-01234567_5-0-0.txt": "1\n5\n"}
    publish(ready)
    assert shelf.visible()["b1/part-01234567_5-0-1.txt"] == "7\n"


def test_a_savepoint_needs_no_staged_pieces(sink: RowFileSink, shelf: Shelf, inline: int) -> None:
    committer = sink.committer()
    full = seal(committer, stage(sink, ["x" * 200]), 0, False)
    committer.sealed(stage(sink, [1, 2, "y"]), 1, False)
    staged = committer.portable(committer.snapshot(), full)
    committer.close(discard=True)
    other = RowFileSink(shelf.base, encode, bucket, suffix=".txt")
    other.prepare("fedcba9876543210")
    after = other.committer()
    after.restore(through_metadata(staged), [needs(staged)])
    publish_all(after, seal(after, [], 2, True))
    assert sorted(shelf.visible().values()) == ["1\n", "2\n", "x" * 200 + "\ny\n"]


@pytest.mark.usefixtures("in_files")
def test_what_is_lost_can_not_become_durable(disk: Shelf) -> None:
    sink = RowFileSink(disk.base, encode, bucket)
    sink.prepare("run")
    committer = sink.committer()
    (piece,) = stage(sink, [1])
    committer.sealed([piece], 0, False)
    delete_file(str(piece.path))
    with pytest.raises(FileNotFoundError):
        committer.make_durable(committer.snapshot())


def test_many_small_pieces_become_one_file(sink: RowFileSink, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 10)
    committer = sink.committer()
    for number in range(1, 41, 2):
        committer.sealed(stage(sink, [number]), 0, False)
        data = [piece[3] for part in committer.snapshot()["parts"] for piece in part[2]]
        assert sum(len(d) for d in data if d is not None) <= 10
    publish_all(committer, seal(committer, [], 0, True))
    assert shelf.visible() == {"b1/part-01234567-0-0.txt": "".join(f"{n}\n" for n in range(1, 41, 2))}
