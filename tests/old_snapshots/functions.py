"""What the job of the stored snapshots calls.

State in the snapshots names the classes of this module, and is described by the types that are declared here. So names,
fields and descriptors stay as they are as long as there are snapshots that were made with them.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from beadline.common import Duration, Instant, Row, RowKind, Time, Types
from beadline.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from beadline.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CountWindow,
    FlatMapFunction,
    GlobalWindow,
    KeyedProcessFunction,
    KeyedRawStateFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RawStateFunction,
    RuntimeContext,
    TimeDomain,
    TimeWindow,
)
from beadline.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

KEYS = 6
BOXES = 3
RECORDS = 200
LAST_STEP = 40
END = 10**9
UNITED = (7, 8)
#: The watermark of every snapshot is above the first of these, and its next number is not above the second.
BEFORE, AFTER = 80, 130
#: A line before this one was read before the snapshot was made.
EARLY = 50
#: So long after a snapshot was made its processing-time timers are due, and what has a short time to live has expired.
DELAY_MS = 180_000
ANY = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
SHAPE = Types.ROW_NAMED(
    ["count", "text", "all", "exact", "sizes", "nested"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.LIST(Types.LONG()),
        Types.BIG_DEC(),
        Types.MAP(Types.STRING(), Types.DOUBLE()),
        Types.ROW_NAMED(
            ["day", "at", "data"], [Types.SQL_DATE(), Types.INSTANT(), Types.PRIMITIVE_ARRAY(Types.BYTE())]
        ),
    ],
)
FIRST_DAY = dt.date(2000, 1, 1)


# -- values in state


class Visit(NamedTuple):
    number: int
    page: str


@dataclass
class Account:
    owner: str
    cents: int = 0
    visits: list[Visit] = field(default_factory=list)


class Plain:
    """Neither a dataclass nor a named tuple."""

    def __init__(self, total: int) -> None:
        self.total = total


# -- functions


class Progress(WatermarkGenerator):
    """A watermark after every tenth event; what it counts with is a value of ours."""

    def __init__(self) -> None:
        self.seen = Account("generator")

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen.cents += 1
        if self.seen.cents % 10 == 0:
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class Seen(FlatMapFunction, CheckpointedFunction, RawStateFunction):
    """Keeps all its numbers in a list that is split, two of them in a union, and their sum as bytes of its own. Tells
    all of it with the last numbers.

    :param markers: a folder in which each number leaves an empty file, None if nobody waits for that
    """

    def __init__(self, markers: str | None) -> None:
        self._markers = markers
        self._sum = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._numbers = store.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._united = store.get_union_list_state(ListStateDescriptor("united", ANY))
        self._own = list(self._numbers.get())
        self._all = list(self._united.get())

    def snapshot_state(self, context: Any) -> None:
        self._numbers.update(self._own)
        self._united.update([visit for visit in self._all if visit.page == f"of {self._subtask}"])

    def restore_raw(self, streams: Iterable[BinaryIO]) -> None:
        self._sum = sum(int(stream.read()) for stream in streams)

    def snapshot_raw(self, stream: BinaryIO) -> None:
        stream.write(b"%d" % self._sum)

    def flat_map(self, value: int) -> Iterator[Any]:
        self._own.append(value)
        self._sum += value
        if value in UNITED:
            self._all.append(Visit(value, f"of {self._subtask}"))
        if self._markers is not None:
            Path(self._markers, str(value)).touch()
        yield value
        if value >= RECORDS - LAST_STEP:
            united = sorted(visit.number for visit in self._all)
            yield json.dumps({"subtask": self._subtask, "own": self._own, "sum": self._sum, "united": united})


class Spread(AggregateFunction):
    """The smallest and the largest value; what it gathers is not what it gives."""

    def create_accumulator(self) -> Any:
        return (math.inf, -math.inf)

    def add(self, value: int, accumulator: Any) -> Any:
        return min(value, accumulator[0]), max(value, accumulator[1])

    def get_result(self, accumulator: Any) -> int:
        return int(accumulator[1] - accumulator[0])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return min(acc_a[0], acc_b[0]), max(acc_a[1], acc_b[1])


def plus(a: int, b: int) -> int:
    return a + b


def _expiring(descriptor: Any, time: Time) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(time).build())
    return descriptor


class Remember(KeyedProcessFunction):
    """Every kind of keyed state with declared types, and timers of both kinds; told when the input ends."""

    def open(self, runtime_context: RuntimeContext) -> None:
        context, century = runtime_context, Time.days(36_500)
        self._total = context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self._shape = context.get_state(ValueStateDescriptor("shape", SHAPE))
        self._pair = context.get_state(ValueStateDescriptor("pair", Types.TUPLE([Types.LONG(), Types.STRING()])))
        self._list = context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self._map = context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.DOUBLE()))
        self._sum = context.get_reducing_state(ReducingStateDescriptor("sum", plus, Types.LONG()))
        self._spread = context.get_aggregating_state(AggregatingStateDescriptor("spread", Spread(), ANY))
        self._account = context.get_state(ValueStateDescriptor("account", ANY))
        self._living = context.get_state(_expiring(ValueStateDescriptor("living", Types.LONG()), century))
        self._lists = context.get_list_state(_expiring(ListStateDescriptor("living list", Types.LONG()), century))
        self._maps = context.get_map_state(
            _expiring(MapStateDescriptor("living map", Types.LONG(), Types.STRING()), century)
        )
        fleeting = ValueStateDescriptor("fleeting", Types.LONG())
        self._fleeting = context.get_state(_expiring(fleeting, Time.milliseconds(DELAY_MS)))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        total = (self._total.value() or 0) + value
        self._total.update(total)
        self._shape.update(self._next_shape(value))
        self._pair.update((value, f"pair {value}"))
        self._list.add(value)
        part = f"part {value % 4}"
        self._map.put(part, (self._map.get(part) or 0.0) + value / 2)
        if value >= 30:
            self._map.remove("part 0")
        self._sum.add(value)
        self._spread.add(value)
        account = self._account.value() or Account(f"owner {ctx.get_current_key()}")
        account.cents += value
        account.visits = [*account.visits, Visit(value, f"page {value}")][-2:]
        self._account.update(account)
        self._living.update((self._living.value() or 0) + 1)
        self._lists.add(value)
        self._maps.put(value % 5, f"living {value}")
        self._fleeting.update((self._fleeting.value() or 0) + 1)
        self._register(value, ctx.timer_service())
        if value >= AFTER and ctx.timer_service().current_watermark() < BEFORE:
            yield f"behind {value}"
        yield f"total {ctx.get_current_key()} {total}"

    def _next_shape(self, value: int) -> Row:
        row = self._shape.value() or Row(0, "", [], Decimal(0), {}, Row(FIRST_DAY, Instant.of_epoch_milli(0), b""))
        nested = Row(row[5][0] + dt.timedelta(1), Instant.of_epoch_milli(value), bytes([value]))
        sizes = {**row[4], f"size {value % 2}": value / 4}
        return Row(row[0] + 1, f"text {value}", [*row[2], value][-3:], row[3] + Decimal("0.25"), sizes, nested)

    @staticmethod
    def _register(value: int, timers: Any) -> None:
        timers.register_event_time_timer(END)
        if 90 <= value < 90 + KEYS:
            timers.register_event_time_timer(150)
            timers.register_event_time_timer(155)
            timers.register_processing_time_timer(timers.current_processing_time() + DELAY_MS)
        if 102 <= value < 102 + KEYS:
            timers.delete_event_time_timer(155)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        key = ctx.get_current_key()
        if ctx.time_domain() == TimeDomain.PROCESSING_TIME:
            yield f"processing {key}"
        elif timestamp < END:
            yield f"event {key} {timestamp}"
        else:
            yield f"remember {key} {self._told()}"

    def _told(self) -> list[Any]:
        account, row = self._account.value(), self._shape.value()
        return [
            self._total.value(),
            [row.count, row.text, list(row.all), str(row.exact), row.sizes],
            [str(row.nested.day), row.nested.at.to_epoch_milli(), list(row.nested.data)],
            self._pair.value(),
            list(self._list.get()),
            sorted(self._map.items()),
            self._sum.get(),
            self._spread.get(),
            [type(account).__name__, account.owner, account.cents, [tuple(visit) for visit in account.visits]],
            self._living.value(),
            list(self._lists.get()),
            sorted(self._maps.items()),
            self._fleeting.value(),
        ]


def things() -> list[Any]:
    """Values of Beadline's own classes."""
    deleted = Row(1, "deleted")
    deleted.set_row_kind(RowKind.DELETE)
    times = [Instant.of_epoch_milli(5), Duration.of_seconds(6), Time.seconds(7)]
    return [deleted, RowKind.UPDATE_AFTER, *times, TimeWindow(8, 9), CountWindow(10), GlobalWindow()]


class Boxes(KeyedProcessFunction):
    """Keys that can't be hashed, and pickles of all sorts, without any declared type."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._things = runtime_context.get_state(ValueStateDescriptor("things", ANY))
        self._plain = runtime_context.get_state(ValueStateDescriptor("plain", ANY))
        self._rows = runtime_context.get_list_state(ListStateDescriptor("rows", ANY))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", ANY, ANY))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        plain = self._plain.value() or Plain(0)
        plain.total += value
        self._plain.update(plain)
        self._rows.add(Row(number=value, box=ctx.get_current_key()))
        if value < BOXES:
            self._things.update(things())
        for name in (math.nan, ("tuple", value % 2)):
            known = self._map.get(name) or {"count": 0, "kind": Decimal(0)}
            self._map.put(name, {"count": known["count"] + 1, "kind": known["kind"] + 1})
        ctx.timer_service().register_event_time_timer(END)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        rows = sorted((row.number, row.box) for row in self._rows.get())
        entries = sorted((str(name), entry["count"], str(entry["kind"])) for name, entry in self._map.items())
        yield f"box {ctx.get_current_key()} {self._plain.value().total} {self._things.value()} {rows} {entries}"


class Scale(BroadcastProcessFunction):
    """Multiplies the last number by a factor that came once, at the very beginning."""

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[str]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield from ()

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        if value == RECORDS - 1:
            yield f"scaled {value * (ctx.get_broadcast_state(RULES).get('factor') or 0)}"


class Session(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[str]:
        window = context.window()
        yield f"session {key} {window.start} {window.end} {sorted(elements)}"


class Counted(ProcessWindowFunction):
    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[str]:
        yield f"counted {key} {sorted(elements)}"


class Pair(ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: Any) -> Iterator[str]:
        yield f"pair {left} {right}"


class Lines(KeyedProcessFunction, KeyedRawStateFunction):
    """Counts lines, and tells how many there were. For each key group it keeps, as bytes of its own, an early line."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._early: dict[int, str] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def restore_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        self._early[key_group] = stream.read().decode()

    def snapshot_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        line = self._early.get(key_group) or self._first
        if line is not None:
            self._early[key_group] = line
            stream.write(line.encode())

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._first = self._first or value
        self._count.update((self._count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(END)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        early = max(int(line.split()[1]) for line in self._early.values())
        yield f"lines {ctx.get_current_key()} {self._count.value()}, {'early' if early < EARLY else early}"
