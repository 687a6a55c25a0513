"""Jobs that count, run by the shipped job master in this process.

Record ``i`` is one row of the output, ``i:n``: it is the ``n``-th record of its key. Which rows there must be, and what
state must have counted by then, is therefore known for any number of records: :func:`rows`.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.restart import FixedDelay, RestartStrategy
from beadline.checkpoint.settings import CheckpointSettings, Storage
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.files import BulkFileSink, Compaction, RollingPolicy, RowFileSink
from beadline.connectors.files.encodings.columns import ParquetEncoding
from beadline.connectors.source import Position, StepSource
from beadline.graph.plan import Plan
from beadline.graph.program import Program as WholeProgram
from beadline.graph.specs import SinkSpec
from beadline.master.definition import JobSettings
from beadline.master.job import JobMaster
from beadline.master.reporting.news import StepReport
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.records import Phase
from tests.graph.programs import Program, by
from tests.master.snapshots.troubles import PATIENCE_SECONDS, TwiceEngine, until

PROGRAM = WholeProgram("/jobs/count.py", (), "count")
KEYS = 5
AT_CHECKPOINTS = RollingPolicy(on_checkpoint=True)


# -- the program


class Numbers(StepSource):
    """0, 1, 2, …: as many as the test has given so far, and a step ends where it was given some.

    :param ends: where steps end
    :param awaits: after each step wait for a checkpoint that holds it
    :ivar committed: up to where the newest completed checkpoint goes
    """

    def __init__(self, ends: list[int] | None = None, bounded: bool = False, awaits: bool = False) -> None:
        self.ends = ends or []
        self.bounded = bounded
        self.committed: int | None = None
        self._awaits = awaits
        self._began: int | None = None

    def initial(self) -> Position:
        return {"offset": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        offset = start["offset"]
        if self._began is None:
            self._began = offset
        if self._awaits and offset > self._began and (self.committed or 0) < offset:
            return start, []
        end = next((end for end in list(self.ends) if end > offset), None)
        return (start, []) if end is None else ({"offset": end}, [(offset, end)])

    def finished(self, position: Position) -> bool:
        return self.bounded and position["offset"] >= max(self.ends, default=0)

    def commit(self, position: Position) -> None:
        self.committed = position["offset"]

    def read_batches(self, split: Any) -> Iterator[Any]:
        yield [(number, 1) for number in range(*split)]

    def poll_interval(self) -> float:
        return 0.002


def key_of(record: tuple[int, int]) -> int:
    return record[0] % KEYS


def counted(before: tuple[int, int], record: tuple[int, int]) -> tuple[int, int]:
    return record[0], before[1] + 1


def encode(record: Any) -> bytes:
    number, count = record
    return f"{number}:{count}\n".encode()


def no_bucket(record: Any, now: int) -> str:
    return ""


def file_sink(folder: Path | str, policy: RollingPolicy | None = None, encode: Any = encode) -> RowFileSink:
    """A part per checkpoint, unless the policy says something else."""
    return RowFileSink(str(folder), encode, no_bucket, policy or AT_CHECKPOINTS)


def compacting_sink(folder: Path | str, policy: RollingPolicy | None = None) -> RowFileSink:
    """What is complete at two checkpoints becomes one file."""
    return replace(file_sink(folder, policy), compaction=Compaction(checkpoints=2))


def parquet_sink(folder: Path | str, policy: RollingPolicy | None = None) -> BulkFileSink:
    """The same rows in Parquet files."""
    schema = pa.schema([("number", pa.int64()), ("count", pa.int64())])
    return BulkFileSink(str(folder), ParquetEncoding(schema, {}), no_bucket, policy or AT_CHECKPOINTS)


def counting_plan(source: Any, *sinks: RowFileSink | BulkFileSink, parallelism: int = 1) -> Plan:
    """Numbers are counted by key and written."""
    program = Program()
    numbers = program.source(source, uid="numbers", parallelism=1)
    sums = program.function("reduce", counted, (numbers, by(key_of)), max_parallelism=8, uid="sums")
    for sink, uid in zip(sinks, ("sink", "second"), strict=False):
        program.add(uid, SinkSpec(sink), sums, uid=uid)
    return replace(program.plan(parallelism=parallelism), program=PROGRAM)


# -- what there must be, and what is there


def rows(stop: int, start: int = 0) -> list[str]:
    """The output for the records from ``start`` to before ``stop``, sorted."""
    return sorted(f"{number}:{number // KEYS + 1}" for number in range(start, stop))


def rows_in(folder: Path | str) -> list[str]:
    """What a reader sees, sorted: neither hidden files nor hidden folders."""
    found: list[str] = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                with contextlib.suppress(FileNotFoundError):  # a job that goes back takes files back
                    found += _rows_of(Path(path, name).read_bytes())
    return sorted(found)


def _rows_of(content: bytes) -> list[str]:
    if not content.startswith(b"PAR1"):
        return content.decode().splitlines()
    return [f"{row['number']}:{row['count']}" for row in pq.read_table(io.BytesIO(content)).to_pylist()]


def consume(folder: Path) -> list[str]:
    """Take everything away that is visible."""
    found = rows_in(folder)
    for path in folder.rglob("part-*"):
        path.unlink()
    return found


def staged_files(folder: Path | str) -> list[str]:
    return [str(path) for path in Path(folder).glob(".staging-*/*/*")]


# -- a job in this process


class Clock:
    """Stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 0
        self.looks = 0  # several per round of the job master

    def __call__(self) -> int:
        self.looks += 1
        return self.now


def settings_of(
    folder: Path, clock: Callable[[], int] | None = None, restart: RestartStrategy | None = None, **checkpoints: Any
) -> JobSettings:
    """Checkpoints in files below a folder; the clock asks for one per second, unless the options say something else."""
    checkpoints = {"interval_ms": 1000, "tolerable_failures": None, **checkpoints}
    made = CheckpointSettings(storage=Storage.FILESYSTEM, directory=str(folder / "checkpoints"), **checkpoints)
    settings = JobSettings(checkpoints=made, restart=restart or FixedDelay(20, 0))
    return settings if clock is None else replace(settings, clock=clock, monotonic=clock)


class LocalJob:
    """A job that reads what the test gives it, and takes a checkpoint when the test asks for one.

    :param sinks: in place of one that writes to ``out``
    :ivar out: the folder of its output
    :ivar given: how many records it was given
    :ivar reports: of the steps that it has sealed
    """

    def __init__(
        self,
        folder: Path,
        policy: RollingPolicy | None = None,
        parallelism: int = 1,
        given: int = 0,
        restart: RestartStrategy | None = None,
        sinks: Sequence[RowFileSink | BulkFileSink] | None = None,
        **checkpoints: Any,
    ) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.source = Numbers([given] if given else [])  # the rest of it is said by step()
        self.clock = Clock()
        self.reports: list[StepReport] = []
        self.engine = TwiceEngine()
        self.master = JobMaster(
            counting_plan(
                self.source, *([file_sink(self.out, policy)] if sinks is None else sinks), parallelism=parallelism
            ),
            self.engine,
            settings_of(folder, self.clock, restart, **checkpoints),
            watchers=[self._hear],
        )
        self.master.start()

    def _hear(self, news: Any) -> None:
        if isinstance(news, StepReport):
            self.reports.append(news)

    @property
    def given(self) -> int:
        return max(self.source.ends, default=0)

    @property
    def home(self) -> Any:
        return self.master.home

    @property
    def storage(self) -> FileJobStorage:
        storage = self.master.home.storage
        assert isinstance(storage, FileJobStorage)
        return storage

    @property
    def checkpoints(self) -> Checkpoints:
        until(lambda: self.master.running is not None, "the job's preparation")
        assert self.master.running is not None
        return self.master.running.checkpoints

    @property
    def truth(self) -> Any:
        """What the last sealed step has left; nothing may run meanwhile."""
        running = self.master.running
        assert running is not None
        assert running.execution is not None
        return running.execution.truth

    @property
    def records(self) -> int:
        """How many records the sealed steps have read."""
        return self.reports[-1].total_records if self.reports else 0

    # -- steps

    def step(self, count: int = 3) -> None:
        """Let it read some more records, and wait until they are sealed."""
        self.give(count)
        self.sealed()

    def give(self, count: int = 3) -> None:
        self.source.ends.append(self.given + count)

    def sealed(self, records: int | None = None) -> None:
        """Wait until all that was given is sealed."""
        until(lambda: self.records == (self.given if records is None else records), "the step")

    # -- checkpoints

    def trigger(
        self,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        directory: Path | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[str]:
        return self.master.trigger(kind, None if directory is None else str(directory), format=format)

    def checkpoint(self) -> str:
        """Take one, and wait until its output is visible."""
        pointer = self.trigger().result(PATIENCE_SECONDS)
        self.settled()
        return pointer

    def savepoint(self, directory: Path, format: SavepointFormatType = SavepointFormatType.CANONICAL) -> Path:
        return Path(self.trigger(CheckpointKind.SAVEPOINT, directory, format).result(PATIENCE_SECONDS))

    def stop(self, directory: Path, format: SavepointFormatType = SavepointFormatType.CANONICAL) -> Future[str]:
        return self.trigger(CheckpointKind.STOP_WITH_SAVEPOINT, directory, format)

    def settled(self) -> None:
        """Wait until no thread works for a checkpoint, and everybody has heard of those that completed."""
        until(self._is_settled, "quiet")
        self.look_around()
        until(self._is_settled, "quiet")

    def _is_settled(self) -> bool:
        checkpoints = self.checkpoints
        return not checkpoints.coordinator.pending and all(
            record.phase is Phase.COMPLETE and record.work is None for record in checkpoints._records
        )

    def look_around(self) -> None:
        """Wait until the job master has handled all that it was told so far."""
        looks = self.clock.looks
        until(lambda: self.clock.looks > looks + 10 or self.master.wait(0), "the next round")

    # -- the end

    def finish(self) -> End:
        """No more records come."""
        self.source.bounded = True
        return self.ended()

    def cancel(self) -> End:
        self.master.cancel()
        return self.ended()

    def ended(self) -> End:
        """Wait for its end."""
        assert self.master.wait(PATIENCE_SECONDS), f"{self.master!r} did not end"
        assert self.master.end is not None
        return self.master.end


def whole(pointer: str | Path) -> bool:
    """Whether all files of a snapshot are there."""
    return verify(read_snapshot(str(pointer))) == []
