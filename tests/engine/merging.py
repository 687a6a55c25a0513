"""A job that uses every kind of keyed state, and whose results have a closed form: numbers in laps over the keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from beadline.common import Time, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.datastream.window import TumblingEventTimeWindows
from tests.engine.stages import Numbers

KEYS = 24
STEP = 32
WINDOW = 100
ANY = Types.PICKLED_BYTE_ARRAY()


def key_of(number: int) -> int:
    return number * 7 % KEYS


def timer_of(number: int) -> int:
    return number + 4 * KEYS + number % 5


class Timestamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


class Remember(KeyedProcessFunction):
    """Counts; gathers three numbers at a time; keeps a map of four places; has a timer for each number, of which every
    third is deleted again. A timer that fires finds what it was set for."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))
        self._places = runtime_context.get_map_state(MapStateDescriptor("places", Types.LONG(), Types.LONG()))
        self._set_for = runtime_context.get_map_state(MapStateDescriptor("set for", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        number = value[0]
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield "count", number, count
        self._last.add(number)
        if count % 3 == 0:
            yield "three", tuple(self._last.get())
            self._last.clear()
        self._places.put(count % 4, number)
        self._places.remove((count + 2) % 4)
        yield "places", number, tuple(sorted(self._places.items()))
        timers = ctx.timer_service()
        self._set_for.put(timer_of(number), number)
        timers.register_event_time_timer(timer_of(number))
        if number % 3 == 0:
            timers.delete_event_time_timer(timer_of(number))
            self._set_for.remove(timer_of(number))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield "timer", ctx.get_current_key(), timestamp, self._set_for.get(timestamp)
        self._set_for.remove(timestamp)


def program(env: StreamExecutionEnvironment, end: int) -> DataStream:
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())
    numbers = env.from_source(Numbers(STEP, 2, end), watermarks, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda value: key_of(value[0]), key_type=Types.LONG())
    remembered = keyed.process(Remember(), output_type=ANY).uid("remember")
    counted = (
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW)))
        .reduce(lambda one, other: (max(one[0], other[0]),))
        .uid("windows")
        .map(lambda value: ("window", key_of(value[0]), value[0]), output_type=ANY)
    )
    return remembered.union(counted)


def differences(results: Iterable[tuple[Any, ...]], end: int) -> list[str]:
    """What is not as it must be after all numbers up to ``end``; nothing if all is well."""
    expected: list[tuple[Any, ...]] = []
    by_key: dict[int, list[int]] = {}
    places: dict[int, dict[int, int]] = {}
    for number in range(end):
        own = by_key.setdefault(key_of(number), [])
        own.append(number)
        count = len(own)
        expected.append(("count", number, count))
        if count % 3 == 0:
            expected.append(("three", tuple(own[-3:])))
        held = places.setdefault(key_of(number), {})
        held[count % 4] = number
        held.pop((count + 2) % 4, None)
        expected.append(("places", number, tuple(sorted(held.items()))))
        if number % 3:
            expected.append(("timer", key_of(number), timer_of(number), number))
    for key, own in by_key.items():
        last = {number // WINDOW: number for number in own}
        expected += [("window", key, number) for number in last.values()]
    missing, more = Counter(expected) - Counter(results), Counter(results) - Counter(expected)
    return [f"{list(missing)[:5]} missing, {list(more)[:5]} too many"] if missing or more else []
