"""Functions whose state is known in closed form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from beadline.common import Row, Time, Types
from beadline.datastream.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
)
from beadline.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


@dataclass
class Order:
    """A class of the user's."""

    item: str
    pieces: int


class Shop(KeyedProcessFunction):
    """Of orders ``(customer, item, pieces)``: the number of pieces, the items in order, and the pieces by item."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.pieces = runtime_context.get_state(ValueStateDescriptor("pieces", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.STRING()))
        self.by_item = runtime_context.get_map_state(MapStateDescriptor("by-item", Types.STRING(), Types.INT()))
        last = Types.ROW_NAMED(["item", "pieces"], [Types.STRING(), Types.INT()])
        self.last = runtime_context.get_state(ValueStateDescriptor("last", last))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        _, item, pieces = value
        if pieces == 0:
            for state in (self.pieces, self.items, self.by_item, self.last):
                state.clear()
            return
        self.pieces.update((self.pieces.value() or 0) + pieces)
        self.items.add(item)
        self.by_item.put(item, (self.by_item.get(item) or 0) + pieces)
        self.last.update(Row(item=item, pieces=pieces))
        ctx.timer_service().register_event_time_timer(pieces * 100)
        yield self.pieces.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), timestamp


class Undeclared(KeyedProcessFunction):
    """Keeps whatever comes, without saying what it is."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.last.update(value[1])


class Forgetful(KeyedProcessFunction):
    """A value, a list and a map that live for an hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        hour = StateTtlConfig.new_builder(Time.hours(1)).build()
        descriptors = [
            ValueStateDescriptor("value", Types.INT()),
            ListStateDescriptor("list", Types.INT()),
            MapStateDescriptor("map", Types.STRING(), Types.INT()),
        ]
        for descriptor in descriptors:
            descriptor.enable_time_to_live(hour)
        self.value = runtime_context.get_state(descriptors[0])
        self.list = runtime_context.get_list_state(descriptors[1])
        self.map = runtime_context.get_map_state(descriptors[2])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.value.update(value[1])
        self.list.add(value[1])
        self.map.put(f"m{value[1]}", value[1])


class Remembering(ProcessFunction, CheckpointedFunction):
    """A list, a union list and a broadcast map of the operator's."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.STRING()))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE()))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        if isinstance(value, int):
            self.seen.add(value)
            self.union.add(f"u{value}")
        yield sorted(self.seen.get()), sorted(self.union.get()), dict(self.rules.items())
