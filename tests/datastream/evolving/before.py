"""A program with state of many types, before they change. It stops with a savepoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from beadline.common import Configuration, Row, Types, WatermarkStrategy
from beadline.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.datastream.evolving import given


@dataclass
class Account:
    owner: str
    cents: int
    remark: str


class Visit(NamedTuple):
    page: str
    seconds: int


@dataclass
class Loose:
    a: int
    b: int


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        get = runtime_context.get_state
        self.account = get(ValueStateDescriptor("account", Types.CLASS(Account)))
        profile = Types.ROW_NAMED(["name", "hits"], [Types.STRING(), Types.INT()])
        self.profile = get(ValueStateDescriptor("profile", profile))
        self.visits = runtime_context.get_list_state(ListStateDescriptor("visits", Types.CLASS(Visit)))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.STRING(), Types.INT()))
        self.text = get(ValueStateDescriptor("text", Types.STRING()))
        self.loose = get(ValueStateDescriptor("loose", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        seen = self.profile.value()
        self.account.update(Account(f"owner {value % 5}", value, "gone later"))
        self.profile.update(Row(name=f"name {value % 5}", hits=1 if seen is None else seen.hits + 1))
        self.visits.add(Visit(f"page {value}", value))
        self.sums.put(f"to {value}", value)
        self.text.update(str(value))
        self.loose.update(Loose(value, -value))
        yield value


class Count(MapFunction, CheckpointedFunction):
    """Counts in operator state."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("counts", Types.INT()))
        self.count = sum(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.count])

    def map(self, value: Any) -> Any:
        self.count += 1
        return value


env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given.options))
env.set_parallelism(2)
read = threading.Event()
env.add_step_listener(lambda report: read.set() if report.total_records == 10 else None)
numbers = env.from_source(given.source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
remembered = numbers.key_by(lambda n: n % 5, Types.INT()).process(Remember()).uid("remember").name("Remember")
remembered.map(Count()).uid("count").print().uid("print")
client = env.execute_async("evolving")
assert read.wait(120)
STOPPED = client.stop_with_savepoint(False, given.savepoints, given.format).result()
