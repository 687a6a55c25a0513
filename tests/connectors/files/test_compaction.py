"""Small files that become one before anybody sees them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Encoder, Types
from beadline.connectors.files import Compaction, RollingPolicy, RowFileSink, pieces
from beadline.connectors.sink import Held
from beadline.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
)
from beadline.datastream.formats.parquet import ParquetBulkWriters
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.table import DataTypes
from tests.connectors.files.conftest import Shelf
from tests.connectors.files.test_files import encode, needs, publish_all, stage, through_metadata

AT_CHECKPOINTS = RollingPolicy(on_checkpoint=True)
EVERY_SECOND = Compaction(checkpoints=2)


def bucket(record: Any, now: int) -> str:
    return "" if record < 100 else "big"


def sink_of(shelf: Shelf, compaction: Compaction | None, policy: RollingPolicy = AT_CHECKPOINTS) -> RowFileSink:
    sink = RowFileSink(shelf.base, encode, bucket, policy, compaction=compaction)
    sink.prepare("0123456789abcdef")
    return sink


def checkpoint(sink: RowFileSink, committer: Any, *staged: tuple[int, list[int]], final: bool = False) -> None:
    """A step with what subtasks staged, and a checkpoint after it."""
    found = [piece for subtask, records in staged for piece in stage(sink, records, subtask)]
    committer.sealed(found, 0, final)
    publish_all(committer, committer.due(True))


def test_files_of_all_subtasks_become_one_after_some_checkpoints(shelf: Shelf) -> None:
    sink = sink_of(shelf, EVERY_SECOND)
    committer = sink.committer()
    checkpoint(sink, committer, (0, [1]), (1, [2]))
    assert shelf.visible() == {}
    checkpoint(sink, committer, (0, [3]))
    assert shelf.visible() == {"compacted-part-01234567-0-0": "1\n2\n3\n"}
    checkpoint(sink, committer, (1, [4]))
    checkpoint(sink, committer)
    assert shelf.visible()["compacted-part-01234567-1-0"] == "4\n"


def test_files_become_one_when_they_are_large_together(disk: Shelf) -> None:
    sink = sink_of(disk, Compaction(size=6))
    committer = sink.committer()
    checkpoint(sink, committer, (0, [1, 100]))
    checkpoint(sink, committer, (0, [2]))
    assert disk.visible() == {}
    checkpoint(sink, committer, (1, [3]))
    assert disk.visible() == {"compacted-part-01234567-0-0": "1\n2\n3\n"}
    checkpoint(sink, committer, final=True)
    assert disk.visible()["big/compacted-part-01234567-0-1"] == "100\n", "at the end none is left"


def test_files_that_are_not_full_are_left_alone(disk: Shelf) -> None:
    sink = sink_of(disk, Compaction(checkpoints=1), RollingPolicy(part_size=4))
    committer = sink.committer()
    checkpoint(sink, committer, (0, [1]), (1, [2, 3]))
    assert disk.visible() == {"compacted-part-01234567-1-0": "2\n3\n"}
    checkpoint(sink, committer, (0, [4]))
    assert disk.visible()["compacted-part-01234567-0-0"] == "1\n4\n"


def test_a_delimiter_comes_between_files(disk: Shelf) -> None:
    sink = sink_of(disk, replace(EVERY_SECOND, delimiter=b"--\n"))
    committer = sink.committer()
    checkpoint(sink, committer, (0, [1]), (1, [2]))
    checkpoint(sink, committer, (0, [3]))
    assert disk.visible() == {"compacted-part-01234567-0-0": "1\n--\n2\n--\n3\n"}


def test_files_may_stay_as_they_are(disk: Shelf) -> None:
    sink = sink_of(disk, replace(EVERY_SECOND, merge=False))
    committer = sink.committer()
    checkpoint(sink, committer, (0, [1]), (1, [2]))
    checkpoint(sink, committer, (0, [3]))
    assert disk.visible() == {
        "compacted-part-01234567-0-0": "1\n",
        "compacted-part-01234567-1-0": "2\n",
        "compacted-part-01234567-0-1": "3\n",
    }


class TestAfterACrash:
    @pytest.fixture(autouse=True, params=[0, 1 << 16], ids=["in files", "inline"])
    def _inline(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pieces, "_INLINE", request.param)

    def waiting(self, disk: Shelf) -> Any:
        sink = sink_of(disk, EVERY_SECOND)
        committer = sink.committer()
        checkpoint(sink, committer, (0, [1]), (1, [2]))
        snapshot = through_metadata(committer.snapshot())
        committer.make_durable(snapshot)
        committer.tidy([needs(snapshot)], idle=True)
        return snapshot

    def test_what_waits_is_still_there(self, disk: Shelf) -> None:
        snapshot = self.waiting(disk)
        sink = sink_of(disk, EVERY_SECOND)
        committer = sink.committer()
        committer.restore(snapshot, [needs(snapshot)])
        checkpoint(sink, committer, (0, [3]))
        assert disk.visible() == {"compacted-part-01234567-0-0": "1\n2\n3\n"}

    def test_what_was_published_since_is_taken_back(self, disk: Shelf) -> None:
        snapshot = self.waiting(disk)
        sink = sink_of(disk, EVERY_SECOND)
        committer = sink.committer()
        for number in range(2):
            committer.restore(snapshot, [needs(snapshot)])
            checkpoint(sink, committer, (0, [3]))
            assert disk.visible() == {f"compacted-part-01234567-0-{number}": "1\n2\n3\n"}

    def test_a_program_that_compacts_no_more_brings_it_out(self, disk: Shelf) -> None:
        snapshot = self.waiting(disk)
        sink = sink_of(disk, None)
        committer = sink.committer()
        committer.restore(snapshot, [needs(snapshot)])
        checkpoint(sink, committer, (0, [3]))
        assert disk.visible() == {"part-01234567-0-0": "1\n3\n", "part-01234567-1-0": "2\n"}

    def test_a_savepoint_has_it(self, disk: Shelf, tmp_path: Path) -> None:
        sink = sink_of(disk, EVERY_SECOND)
        committer = sink.committer()
        checkpoint(sink, committer, (0, [1]), (1, [2]))
        committer.sealed(stage(sink, [3], 0), 0, False)
        savepoint = through_metadata(committer.portable(committer.snapshot(), []))
        committer.close(discard=True)
        other = Shelf(str(tmp_path / "other"))
        moved = sink_of(other, EVERY_SECOND)
        restored = moved.committer()
        restored.restore(savepoint, [Held(savepoint, [], [])])
        checkpoint(moved, restored, final=True)
        assert other.visible() == {"compacted-part-01234567-0-0": "1\n3\n2\n"}

    def test_nothing_is_left_staged_when_it_has_appeared(self, disk: Shelf) -> None:
        snapshot = self.waiting(disk)
        sink = sink_of(disk, EVERY_SECOND)
        committer = sink.committer()
        committer.restore(snapshot, [needs(snapshot)])
        checkpoint(sink, committer, (0, [3]))
        committer.tidy([needs(committer.snapshot())], idle=True)
        assert disk.staged() == []


class TestBuilders:
    STRATEGY = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).set_size_threshold(1024).build()

    def test_set_up_a_sink(self, tmp_path: Path) -> None:
        builder = (
            FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .enable_compact(self.STRATEGY, FileCompactor.concat_file_compactor(b"\n"))
        )
        assert builder.build()._make_sink(Types.STRING()).compaction == Compaction(1024, 3, True, b"\n")
        identical = builder.enable_compact(self.STRATEGY, FileCompactor.identical_file_compactor())
        assert identical.build()._make_sink(Types.STRING()).compaction == Compaction(1024, 3, False, b"")
        assert builder.disable_compact().build()._make_sink(Types.STRING()).compaction is None

    def test_refuse_what_cannot_work(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="needs a condition"):
            FileCompactStrategy.builder().set_num_compact_threads(2).build()
        with pytest.raises(ConfigurationError, match=r"set_size_threshold\(\) takes a positive number, got 0"):
            FileCompactStrategy.builder().set_size_threshold(0)
        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
        bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row_type))
        bulk.enable_compact(self.STRATEGY, FileCompactor.concat_file_compactor())
        with pytest.raises(ConfigurationError, match="can't be a delimiter in files of a bulk format"):
            bulk.enable_compact(self.STRATEGY, FileCompactor.concat_file_compactor(b"x"))
        with pytest.raises(TypeMismatchError, match="takes a FileCompactStrategy and a FileCompactor"):
            bulk.enable_compact(self.STRATEGY, None)  # type: ignore[arg-type]
