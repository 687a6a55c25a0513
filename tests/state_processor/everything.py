"""A job with every kind of state, whose content is known in closed form. It reads everything and then waits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from beadline.common import Configuration, Row, Time, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.functions import (
    AggregateFunction,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
)
from beadline.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from beadline.datastream.window import TumblingEventTimeWindows
from beadline.master import life
from beadline.master.job import JobMaster
from beadline.testing import At, TestSource

KEYS = 40
ROUNDS = 5
#: ``(customer, pieces)``: customer n orders n + 1 pieces in each round.
ORDERS = [(f"c{n}", n + 1) for _ in range(ROUNDS) for n in range(KEYS)]
FAR = 10_000_000_000_000


@dataclass
class Order:
    """A class of the user's."""

    customer: str
    pieces: int


class _Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class _Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction):
    """All kinds of keyed state, with and without a time to live, and timers of both domains."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.INT()))
        self.by_size = runtime_context.get_map_state(MapStateDescriptor("by-size", Types.INT(), Types.STRING()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", _Sum(), Types.LONG()))
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", _Mean(), pair))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))
        fresh = ValueStateDescriptor("fresh", Types.INT())
        fresh.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.fresh = runtime_context.get_state(fresh)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        customer, pieces = value
        self.total.update((self.total.value() or 0) + pieces)
        self.items.add(pieces)
        self.by_size.put(pieces, customer * pieces)
        self.sum.add(pieces)
        self.mean.add(pieces)
        self.last.update(Order(customer, pieces))
        self.fresh.update(pieces)
        ctx.timer_service().register_event_time_timer(FAR + pieces)
        ctx.timer_service().register_processing_time_timer(FAR - pieces)
        yield value


class Seen(CheckpointedFunction, KeyedProcessFunction):
    """Keyed state without a declared type, under tuples as keys, and operator state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.note = runtime_context.get_state(ValueStateDescriptor("note", Types.PICKLED_BYTE_ARRAY()))

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        if not context.is_restored():
            self.seen.add("something")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.note.update(Row(customer=value[0], pieces=value[1]))


class _Count(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, len(list(elements))


def environment(parallelism: int, **options: Any) -> StreamExecutionEnvironment:
    """The program; options are Flink's, with ``_`` for ``.`` and ``__`` for ``-``."""
    config = Configuration()
    for name, value in options.items():
        config.set_string(name.replace("__", "-").replace("_", "."), str(value))
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    env.set_max_parallelism(16)
    source = TestSource([At(order, 1000 * n) for n, order in enumerate(ORDERS)], bounded=False, step=KEYS)
    typed = Types.TUPLE([Types.STRING(), Types.INT()])
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    orders = env.from_source(source, strategy, "orders", typed).uid("orders")
    orders.key_by(lambda order: order[0], Types.STRING()).process(Everything(), typed).name("Shop").uid("shop").key_by(
        lambda order: (order[0], order[1]), typed
    ).process(Seen(), Types.STRING()).uid("seen")
    orders.key_by(lambda order: order[1] % 4).window(TumblingEventTimeWindows.of(Time.hours(1))).process(_Count()).uid(
        "windows"
    )
    return env


@contextmanager
def running(parallelism: int = 2, **options: Any) -> Iterator[JobMaster]:
    """The job, after it has read everything."""
    client = environment(parallelism, **options).execute_async("everything")
    try:
        (master,) = [job for job in life.jobs if job.job_id == str(client.get_job_id())]
        deadline = time.monotonic() + 30
        while master.truth is None or master.truth.records < len(ORDERS):
            assert time.monotonic() < deadline, master
            assert not master.wait(0.01), master.error
        yield master
    finally:
        client.cancel().result()
