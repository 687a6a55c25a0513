"""A program in several versions, with every kind of state, whose output has a closed form however often it is stopped
with a savepoint and goes on as another version.

Numbers ``0 … records - 1``, each with itself as timestamp, are spread over subtasks and dealt out by key. Everything
about a key is told at the end of the input.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beadline.common import Configuration, Encoder, Row, Time, Types, WatermarkStrategy
from beadline.common.job_client import JobClient
from beadline.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from beadline.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from beadline.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from beadline.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    StateBackend,
)
from beadline.datastream.window import TumblingEventTimeWindows
from beadline.testing import At, TestSource

HALF = 60
RECORDS = 2 * HALF
STEP = 30
KEYS = 6
FACTOR = 7
ANY = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
PATIENCE = 120.0


@dataclass(frozen=True)
class Version:
    """What may change between two runs of the program.

    :ivar has_extra: an operator with state that later versions leave out
    :ivar has_newcomer: an operator with state that earlier versions don't have
    """

    has_extra: bool = True
    has_newcomer: bool = False
    renamed: bool = False
    reordered: bool = False


VERSIONS = {
    "same": Version(),
    "added": Version(has_newcomer=True),
    "removed": Version(has_extra=False),
    "renamed": Version(renamed=True),
    "reordered": Version(reordered=True),
}


# -- functions


class Seen(MapFunction, CheckpointedFunction):
    """Keeps the numbers it has seen in a list that is split when parallelism changes, and its subtask's last number in
    one that everybody is shown. Tells what it was restored with."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = str(folder)

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._numbers = store.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._last = store.get_union_list_state(ListStateDescriptor("last", Types.LONG()))
        self._own = list(self._numbers.get())
        self._restored = None
        if context.is_restored():
            told = {"numbers": self._own, "last": sorted(self._last.get())}
            self._restored = context.get_restored_checkpoint_id(), json.dumps(told)

    def snapshot_state(self, context: Any) -> None:
        self._numbers.update(self._own)
        self._last.update(self._own[-1:])

    def map(self, value: int) -> int:
        if self._restored is not None:
            number, told = self._restored
            (Path(self._folder) / f"restored-{number}-{time.monotonic_ns()}.json").write_text(told)
            self._restored = None
        self._own.append(value)
        return value


class Remember(KeyedProcessFunction):
    """All kinds of keyed state, with declared types and without; told when the input ends."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig.new_builder(Time.hours(1)).build()
        living = ValueStateDescriptor("living", Types.LONG())
        living.enable_time_to_live(ttl)
        self._living = runtime_context.get_state(living)
        self._row = runtime_context.get_state(
            ValueStateDescriptor("row", Types.ROW_NAMED(["count", "text"], [Types.LONG(), Types.STRING()]))
        )
        self._any = runtime_context.get_state(ValueStateDescriptor("any", ANY))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self._sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", _plus, Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._living.update((self._living.value() or 0) + 1)
        row = self._row.value() or Row(0, "")
        self._row.update(Row(row[0] + 1, f"{int(row[1] or 0) + value}"))
        known = self._any.value() or {"last": 0, "all": 0}
        self._any.update({"last": max(value, known["last"]), "all": known["all"] + value})
        self._list.add(value)
        part = "even" if value % 2 == 0 else "odd"
        self._map.put(part, (self._map.get(part) or 0) + value)
        self._sum.add(value)
        ctx.timer_service().register_event_time_timer(10**9 + value % 2)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        row = self._row.value()
        told = [
            self._living.value(),
            [row[0], row[1]],
            self._any.value(),
            sorted(self._list.get()),
            dict(sorted(self._map.items())),
            self._sum.get(),
            timestamp,
        ]
        yield f"remember {ctx.get_current_key()} {json.dumps(told)}"


def _plus(a: int, b: int) -> int:
    return a + b


class Count(KeyedProcessFunction):
    """Counts by key, and tells when the input ends."""

    def __init__(self, what: str) -> None:
        self._what = what

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._count.update((self._count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**9)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        yield f"{self._what} {ctx.get_current_key()} {self._count.value()}"


class Scale(BroadcastProcessFunction):
    """Multiplies the last number by a factor that came once, at the very beginning."""

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[str]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield from ()

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        if value == RECORDS - 1:
            yield f"scaled {value * (ctx.get_broadcast_state(RULES).get('factor') or 0)}"


def _key(value: int) -> int:
    return value % KEYS


def _told(pair: tuple[int, int]) -> str:
    return f"window {pair[0]} {pair[1]}"


def _pair(value: int) -> tuple[int, int]:
    return value % KEYS, value


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0], a[1] + b[1]


def _first(pair: tuple[int, int]) -> int:
    return pair[0]


# -- the program


def backend_of(name: str, folder: Path) -> StateBackend:
    files = f"file://{folder / 'checkpoints'}"
    made: dict[str, StateBackend] = {
        "heap": HashMapStateBackend(),
        "rocksdb": EmbeddedRocksDBStateBackend(),
        "memory": MemoryStateBackend(),
        "fs": FsStateBackend(files),
    }
    return made[name]


def start(
    folder: Path,
    backend: str,
    parallelism: int,
    script: list[Any],
    version: Version | None = None,
    bounded: bool = True,
    options: Mapping[str, str] | None = None,
) -> JobClient:
    """Start a version of the program; its output goes to ``folder/out``."""
    version = version or Version()
    configuration = Configuration()
    for key, value in {
        "beadline.step.first-records": str(STEP),
        "beadline.step.max-records": str(STEP),
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.dir": "" if backend == "memory" else str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        **(options or {}),
    }.items():
        if value:
            configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_state_backend(backend_of(backend, folder))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    numbers = env.from_source(TestSource(script, bounded), strategy, "numbers", Types.LONG()).uid("numbers")
    seen = numbers.rebalance().map(Seen(folder), output_type=Types.LONG()).uid("seen")
    branches = [_remember, _windows, _scaled]
    if version.has_extra:
        branches.append(_extra)
    if version.has_newcomer:
        branches.append(_newcomer)
    if version.reordered:
        branches.reverse()
    told = [branch(env, seen, version) for branch in branches]
    _to_files(told[0].union(*told[1:]), folder)
    return env.execute_async("upgrades")


def _remember(env: StreamExecutionEnvironment, seen: DataStream, version: Version) -> DataStream:
    made = seen.key_by(_key, key_type=Types.LONG()).process(Remember(), output_type=Types.STRING()).uid("remember")
    return made.name("renamed") if version.renamed else made.name("remember")


def _windows(env: StreamExecutionEnvironment, seen: DataStream, version: Version) -> DataStream:
    pairs = seen.map(_pair, output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
    if version.reordered:
        pairs = pairs.filter(lambda pair: True)
    windows = pairs.key_by(_first, key_type=Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(10**6)))
    return windows.reduce(_add).uid("windows").map(_told, output_type=Types.STRING())


def _scaled(env: StreamExecutionEnvironment, seen: DataStream, version: Version) -> DataStream:
    rules = env.from_collection([("factor", FACTOR)], ANY).uid("rules").broadcast(RULES)
    return seen.connect(rules).process(Scale(), output_type=Types.STRING()).uid("scale")


def _extra(env: StreamExecutionEnvironment, seen: DataStream, version: Version) -> DataStream:
    return seen.key_by(_key, key_type=Types.LONG()).process(Count("extra"), output_type=Types.STRING()).uid("extra")


def _newcomer(env: StreamExecutionEnvironment, seen: DataStream, version: Version) -> DataStream:
    keyed = seen.key_by(_key, key_type=Types.LONG())
    return keyed.process(Count("newcomer"), output_type=Types.STRING()).uid("newcomer")


def _to_files(stream: DataStream, folder: Path) -> None:
    sink = (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    stream.sink_to(sink).uid("files")


def numbers(start: int, end: int) -> list[Any]:
    return [At(number, number) for number in range(start, end)]


# -- what it should tell


def expected(version: Version, since: int = 0) -> list[str]:
    """The lines of a whole run; ``since``: the first number that a newcomer has seen."""
    lines = [f"scaled {(RECORDS - 1) * FACTOR}"]
    for key in range(KEYS):
        mine = [number for number in range(RECORDS) if number % KEYS == key]
        total = sum(mine)
        parts = {"odd" if key % 2 else "even": total}
        told = [len(mine), [len(mine), str(total)], {"last": mine[-1], "all": total}, mine, parts, total]
        lines.append(f"remember {key} {json.dumps([*told, 10**9 + key % 2])}")
        lines.append(f"window {key} {sum(mine)}")
        if version.has_extra:
            lines.append(f"extra {key} {len(mine)}")
        if version.has_newcomer:
            lines.append(f"newcomer {key} {len([number for number in mine if number >= since])}")
    return sorted(lines)


def restored(folder: Path) -> list[dict[str, Any]]:
    """What each subtask of ``Seen`` was restored with from the savepoint; objects that are made later, in whichever
    worker a subtask has moved to, start from later states."""
    found = sorted((int(path.name.split("-")[1]), path) for path in folder.glob("restored-*.json"))
    return [json.loads(path.read_text()) for number, path in found if number == found[0][0]]


def told(folder: Path) -> list[str]:
    """The lines that a reader of the output sees."""
    paths = [path for path in (folder / "out").rglob("*.txt") if not any(p.startswith(".") for p in path.parts)]
    return sorted(line for path in paths for line in path.read_text().splitlines())


def master_of(client: JobClient) -> Any:
    return client._control._master  # type: ignore[attr-defined]


def _has_read(execution: Any, records: int) -> bool:
    return execution is not None and execution.truth.records >= records + 1


def wait_until_read(client: JobClient, records: int) -> None:
    """Until so many records, and the one rule, are in a sealed step."""
    master, until = master_of(client), time.monotonic() + PATIENCE
    while master.running is None or not _has_read(master.running.execution, records):
        assert not master.wait(0), f"the job ended: {master.error!r}"
        assert time.monotonic() < until, f"not within {PATIENCE} s: {master!r}"
        time.sleep(0.01)


def end_of(client: JobClient) -> str:
    """Wait for the end; gives the error, or nothing."""
    master = master_of(client)
    assert master.wait(PATIENCE), f"no end within {PATIENCE} s: {master!r}"
    return "" if master.error is None else str(master.error)
