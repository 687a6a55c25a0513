"""A job whose output has a closed form, the accidents that befall it, and what its files should hold.

Numbers ``0 … records - 1`` are read ``STEP`` at a time by two subtasks: even ones by the first, odd ones by the second.
Operator state gives each its position at its subtask, keyed state counts and adds up; an event-time timer tells the
totals at the end. All of a key come by the same way, so that every line and the order within a key are known.
"""

from __future__ import annotations

import io
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from beadline.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from beadline.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from beadline.datastream.formats.parquet import ParquetBulkWriters
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.table import DataTypes
from tests.engine.jobs import kill_executor

STEP = 60
KEYS = 6
SLEEP = 5.0
ANY = Types.PICKLED_BYTE_ARRAY()
COMPLETED = "a-checkpoint-has-completed"
ENGINE = "beadline.engine"
LOCAL = {ENGINE: "local"}
RESIDENT = {ENGINE: "resident"}


# -- accidents


class Accident:
    """Something that happens once: to the first that creates the marker file, whatever is run again.

    :param gate: not before this file is in the folder. By default that is when a checkpoint has completed, so that
        there is one to go back to
    """

    def __init__(self, folder: Path | str, name: str, gate: str | None = COMPLETED) -> None:
        self._marker = os.path.join(folder, f"accident-{name}")
        self._gate = os.path.join(folder, gate) if gate is not None else None

    def happens(self) -> bool:
        if self._gate is not None and not os.path.exists(self._gate):
            return False
        try:
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    @property
    def happened(self) -> bool:
        return os.path.exists(self._marker)


class Sabotage(Exception):
    """What functions raise that are told to."""


# -- the job


class Half(InputPartition):
    """The even or the odd numbers of a range."""

    def __init__(self, start: int, end: int, odd: int) -> None:
        self.start, self.end, self.odd = start, end, odd


class Numbers(DataSourceStreamReader):
    """Counts up to ``records`` and ends."""

    bounded = True

    def __init__(self, records: int) -> None:
        self._records = records

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"next": min(self._records, start["next"] + limit.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Half]:
        return [Half(start["next"], end["next"], odd) for odd in (0, 1)]

    def read(self, partition: Half) -> Iterator[tuple[int]]:
        first = partition.start + (partition.start + partition.odd) % 2
        return iter([(number,) for number in range(first, partition.end, 2)])


class Place(MapFunction, CheckpointedFunction, CheckpointListener):
    """Adds to a number its position at this subtask, from operator state.

    :param fails_in: ``snapshot``, ``restore``, ``close``: where it fails, once, in the subtask of the even numbers
    :param last: the position with which an input ends; ``close`` fails only there, because nobody hears of failures
        when functions of an execution that is over are closed
    :param pace: seconds that each number takes
    """

    def __init__(self, folder: Path | str, fails_in: tuple[str, ...], last: int, pace: float) -> None:
        self._folder = str(folder)
        self._accidents = {name: Accident(folder, name) for name in fails_in}
        self._last = last
        self._pace = pace

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("count", Types.LONG()))
        self._odd, self._count = list(self._state.get()) or (1, 0)
        # Something has to fail first: objects are also made anew when nothing has to be restored from a checkpoint.
        if context.is_restored() and "snapshot" in self._accidents and self._accidents["snapshot"].happened:
            self._perhaps_fail("restore")

    def snapshot_state(self, context: Any) -> None:
        self._state.update([self._odd, self._count])
        self._perhaps_fail("snapshot")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Path(self._folder, COMPLETED).touch()

    def close(self) -> None:
        if self._count == self._last:
            self._perhaps_fail("close")

    def _perhaps_fail(self, where: str) -> None:
        if where in self._accidents and not self._odd and self._accidents[where].happens():
            raise Sabotage(f"in {where}")

    def map(self, value: tuple[int]) -> tuple[int, int]:
        if self._pace:
            time.sleep(self._pace)
        self._odd = value[0] % 2
        self._count += 1
        return value[0], self._count


class CountAndSum(KeyedProcessFunction):
    """Counts and adds up by key, and tells the totals when the input has ended.

    :param accidents: what happens from some numbers on, once each: ``fail``, ``kill`` (the worker), ``kill executor``
        or ``sleep``
    :param gate: what accidents wait for, see :class:`Accident`; a killed worker needs no checkpoint to go back to
    """

    def __init__(
        self, folder: Path | str, accidents: Mapping[int, str] | None = None, gate: str | None = COMPLETED
    ) -> None:
        self._accidents = [
            (number, what, Accident(folder, f"{what}-{number}", None if what == "kill" else gate))
            for number, what in (accidents or {}).items()
        ]

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sums = runtime_context.get_state(ValueStateDescriptor("sums", Types.TUPLE([Types.LONG(), Types.LONG()])))
        self._thirds = runtime_context.get_map_state(MapStateDescriptor("thirds", Types.LONG(), Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        number, position = value
        count, total = self._sums.value() or (0, 0)
        count, total = count + 1, total + number
        self._sums.update((count, total))
        third = number // KEYS % 3
        self._thirds.put(third, (self._thirds.get(third) or 0) + 1)
        ctx.timer_service().register_event_time_timer(1)
        for at, what, accident in self._accidents:
            if number >= at and accident.happens():
                _befall(what, number)
        yield f"{ctx.get_current_key()} {count} {total} {position}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        count, total = self._sums.value()
        thirds = sorted(self._thirds.items())
        yield f"{ctx.get_current_key()} total {count} {total} {thirds}"


def _befall(what: str, number: int) -> None:
    if what == "sleep":
        time.sleep(SLEEP)
        return
    if what == "fail":
        raise Sabotage(f"at {number}")
    if what == "kill executor":
        kill_executor()
    os.kill(os.getpid(), signal.SIGKILL)


def key_of(value: tuple[int, int]) -> int:
    return value[0] % KEYS


def environment(folder: Path | str, options: Mapping[str, str] | None = None) -> StreamExecutionEnvironment:
    """Small steps, a checkpoint every half second, restarts after 100 ms without end; ``options`` come on top."""
    configuration = Configuration()
    for key, value in {
        "beadline.step.first-records": str(STEP),
        "beadline.step.max-records": str(STEP),
        "parallelism.default": "2",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": str(Path(folder) / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "100 ms",
        **(options or {}),
    }.items():
        if value:
            configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def lines_of(
    env: StreamExecutionEnvironment,
    records: int,
    folder: Path | str,
    *,
    accidents: Mapping[int, str] | None = None,
    gate: str | None = COMPLETED,
    fails_in: tuple[str, ...] = (),
    pace: float = 0.0,
) -> DataStream:
    """The stream of lines. Two subtasks read and place numbers, whatever the parallelism of the rest."""
    numbers = env.from_source(Numbers(records), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.set_parallelism(2)
    placed = numbers.map(Place(folder, fails_in, records // 2, pace), output_type=ANY).uid("place").set_parallelism(2)
    counted = placed.key_by(key_of, key_type=Types.LONG())
    count = CountAndSum(folder, accidents, gate)
    return counted.process(count, output_type=Types.STRING()).uid("count")


def to_files(
    stream: DataStream, folder: Path | str, rolling: RollingPolicy | None = None, out: str | None = None
) -> None:
    """Write lines to ``folder/out``, or elsewhere, a part at each checkpoint."""
    sink = (
        FileSink.for_row_format(out or str(Path(folder) / "out"), Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .with_rolling_policy(rolling or RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    stream.sink_to(sink).uid("files")


def to_parquet(stream: DataStream, out: str) -> None:
    """Write lines as rows of Parquet files."""
    row = DataTypes.ROW([DataTypes.FIELD("line", DataTypes.STRING())])
    sink = (
        FileSink.for_bulk_format(out, ParquetBulkWriters.for_row_type(row))
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".parquet").build())
        .build()
    )
    stream.map(Row, row.type_info()).uid("rows").sink_to(sink).uid("files")


# -- what the files hold, and what they should


PART = re.compile(r"part-\w+-(\d+)-(\d+)\.(?:txt|parquet)")


def text_of(name: str, content: bytes) -> str:
    """The lines of a file."""
    if not name.endswith(".parquet"):
        return content.decode()
    return "".join(f"{line}\n" for line in pq.read_table(io.BytesIO(content))["line"].to_pylist())


def files_in(folder: Path, hidden: tuple[str, ...]) -> Iterator[Path]:
    """The files below a folder, without those that have a name on the way to them that begins so.

    Folders may go away during the walk: os.walk() passes over them, where Path.rglob() fails.
    """
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(hidden)]
        yield from (Path(parent, name) for name in names if not name.startswith(hidden))


def visible(folder: Path | str) -> list[str]:
    """The lines that a reader of the folder sees, in the order in which each subtask wrote them."""
    parts = []
    for path in files_in(Path(folder) / "out", (".", "_")):
        found = PART.fullmatch(path.name)
        assert found is not None, f"a stranger is visible: {path}"
        parts.append((int(found[1]), int(found[2]), path))
    return lines_in([(subtask, counter, path.read_text()) for subtask, counter, path in sorted(parts)])


def lines_in(parts: list[tuple[int, int, str]]) -> list[str]:
    """The lines of parts, which are told by subtask, counter and content, in the order in which they were written."""
    lines: list[str] = []
    for subtask, counter, text in sorted(parts):
        assert text.endswith("\n"), f"part {counter} of subtask {subtask} ends in the middle of a line"
        lines += text.splitlines()
    return lines


def by_key(lines: list[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {key: [] for key in range(KEYS)}
    for line in lines:
        found[int(line.split()[0])].append(line)
    return found


def closed_form(records: int, without: range = range(0)) -> dict[int, list[str]]:
    """The lines of each key, in order.

    :param without: numbers that were never processed
    """
    expected: dict[int, list[str]] = {}
    for key in range(KEYS):
        total = 0
        numbers = [number for number in range(key, records, KEYS) if number not in without]
        lines = []
        for count, number in enumerate(numbers, 1):
            total += number
            position = number // 2 + 1 - (len(without) // 2 if number >= without.stop else 0)
            lines.append(f"{key} {count} {total} {position}")
        thirds = sorted(Counter(number // KEYS % 3 for number in numbers).items())
        expected[key] = [*lines, f"{key} total {len(numbers)} {total} {thirds}"]
    return expected


def differences(lines: list[str], records: int, whole: bool = True, without: range = range(0)) -> list[str]:
    """What is wrong with some lines, in words; nothing if they are the closed form, or at least a beginning of it."""
    found, problems = by_key(lines), []
    for key, expected in closed_form(records, without).items():
        got = found[key]
        want = expected if whole else expected[: len(got)]
        if got == want:
            continue
        surplus, lost = Counter(got) - Counter(want), Counter(want) - Counter(got)
        if surplus or lost:
            problems.append(f"key {key}: too many {_few(surplus)}, lost {_few(lost)}")
        else:
            problems.append(f"key {key}: out of order")
    return problems


def _few(lines: Counter[str]) -> str:
    return f"{lines.total()} {sorted(lines)[:3]}"


def leftovers(folder: Path) -> list[str]:
    """What sinks staged and nobody removed."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.startswith(".staging"))
