"""Savepoints made by a harness, and readers of them that need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Types
from beadline.state.segments.files import read_segment
from beadline.state.segments.version import SegmentRef, checksum_of
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.reader import SavepointReader
from beadline.testing import Harness, KeyedHarness
from tests.state_processor.functions import Shop


class LocalTasks:
    """Runs what would be tasks one after the other, on copies, and gives Arrow tables."""

    spark: Any = None

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.pieces = 0

    def over(
        self, pieces: Sequence[Any], function: Callable[[Any], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> pa.Table:
        self.pieces = len(pieces)
        shipped = cloudpickle.loads(cloudpickle.dumps((list(pieces), function)))
        batches = [batch for piece in shipped[0] for batch in shipped[1](piece)]
        return pa.Table.from_batches(batches, schema)


def reader(path: str, slots: int = 2) -> Any:
    """A reader whose DataFrames are Arrow tables."""
    return SavepointReader(LocalTasks(slots), Catalog(path))  # type: ignore[arg-type]


def shop(parallelism: int = 2, max_parallelism: int = 13) -> KeyedHarness:
    """A harness around :class:`Shop`."""
    by_customer = {"key_selector": lambda order: order[0], "key_type": Types.STRING()}
    return KeyedHarness(Shop(), **by_customer, parallelism=parallelism, max_parallelism=max_parallelism)


def save(harness: Harness, folder: Path) -> str:
    """The harness's state as a savepoint."""
    folder.mkdir()
    (folder / metadata.METADATA).write_bytes(harness.snapshot())
    return str(folder)


def keep(snapshot: Snapshot, folder: Path) -> str:
    """A snapshot that was made by hand as a savepoint."""
    folder.mkdir()
    (folder / metadata.METADATA).write_bytes(metadata.encode(snapshot, str(folder)))
    return str(folder)


def as_harness_snapshot(path: str) -> bytes:
    """A savepoint in the form that a harness takes, with all state inside."""

    def inline(segment: SegmentRef) -> SegmentRef:
        data = read_segment(segment)
        return SegmentRef(
            segment.version,
            segment.entries,
            segment.size,
            inline=data,
            checksum=checksum_of(data),
            groups=segment.groups,
        )

    return metadata.encode(read_snapshot(path).with_segments(inline), "harness")


def rows(table: Any) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table or a DataFrame, in the order of their text."""
    if isinstance(table, pa.Table):
        found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    else:
        found = [tuple(row) for row in table.collect()]
    return sorted(found, key=repr)
