"""Keys that can't be hashed, and None as a key of a declared type, wherever keyed state goes."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.common import Configuration, Row, Types
from beadline.datastream import KeyedProcessFunction
from beadline.datastream.state import ValueStateDescriptor
from beadline.state.description import StateDescription, text_of
from beadline.state.key_groups import indexed
from beadline.state.parquet.columns import KeyedColumns
from beadline.testing import KeyedHarness

KEYS: list[tuple[Any, list[Any]]] = [
    (None, [[1], {"a": [1]}, {1}, frozenset({2}), bytearray(b"x"), (1, [2]), Row(1, [2]), None]),
    (Types.LIST(Types.INT()), [[1], [], None]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, None]),
    (Types.STRING(), ["a", None]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), None]),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [Row(a=1), None]),
]


class Count(KeyedProcessFunction):
    """Counts a key's elements, and changes the key that it was given."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(10)
        yield ctx.get_current_key(), count
        if isinstance(ctx.get_current_key(), list):
            ctx.get_current_key().append("changed")
            value.append("changed too")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"{self.count.value()} in the end"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("key_type", "keys"), KEYS, ids=lambda given: repr(given)[:40])
def test_state_and_timers_stay_with_their_key(key_type: Any, keys: list[Any], backend: str) -> None:
    configuration = Configuration.from_dict({"state.backend.type": backend})

    def harness(parallelism: int) -> KeyedHarness:
        return KeyedHarness(
            Count(), lambda value: value, key_type=key_type, parallelism=parallelism, configuration=configuration
        )

    with harness(2) as before:
        for key in keys:
            assert before.push(key) == [(key, 1)]
        before.lose_worker()
        for key in keys:
            assert before.push(key) == [(key, 2)]
        snapshot = before.snapshot()
    with harness(1) as after:
        after.restore(snapshot)
        for key in keys:
            assert after.push(key) == [(key, 3)]
        ended = after.end_input()
    assert len(ended) == len(keys)
    assert all((key, "3 in the end") in ended for key in keys)


@pytest.mark.parametrize(("key_type", "keys"), KEYS, ids=lambda given: repr(given)[:40])
def test_the_tables_of_a_savepoint_hold_them(key_type: Any, keys: list[Any]) -> None:
    columns = KeyedColumns(
        StateDescription("count", "value", type=text_of(Types.INT())), text_of(key_type or Types.PICKLED_BYTE_ARRAY())
    )
    slots = [indexed(key) for key in keys]
    batch = columns.batch([0] * len(keys), slots, list(range(len(keys))))
    assert columns.table(batch).changes == {slot: number for number, slot in enumerate(slots)}
