"""A job whose results have a closed form at every parallelism: the program, its input, and what must come out.

Numbers come in stages, each of three laps over the 42 keys; between two stages the job goes on with another
parallelism. What crosses: keyed state of three kinds, timers of the next stage, numbers that are held back (a list that
is split), the counts of former subtasks (a union), rules (broadcast state).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from beadline.common import Types
from beadline.datastream import (
    BroadcastStream,
    CheckpointedFunction,
    DataStream,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
)
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

KEYS = 42
LAPS = 3
STAGE = KEYS * LAPS
PARALLELISMS = (1, 2, 4, 3, 1)
ANY = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
# Behind the last stage comes one more lap, which sets free what is held back.
NUMBERS = len(PARALLELISMS) * STAGE + KEYS
PER_KEY = NUMBERS // KEYS


def numbers_of(stage: int) -> range:
    return range(stage * STAGE, min(NUMBERS, (stage + 1) * STAGE))


def timestamp_of(number: int) -> int:
    """The first lap of a stage fires the timers of the stage before."""
    stage, place = divmod(number, STAGE)
    return 1000 * stage + (500 if place < KEYS else 900)


class Hold(FlatMapFunction, CheckpointedFunction):
    """Holds numbers back, in a list that is split when the parallelism changes; a number of a first lap sets them free.

    Adds to each how many numbers all subtasks of former stages have seen, which a union tells.
    """

    def __init__(self, stage: int) -> None:
        self._stage = stage

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._held_state = store.get_list_state(ListStateDescriptor("held", Types.LONG()))
        self._seen_state = store.get_union_list_state(ListStateDescriptor("seen", ANY))
        self._held = list(self._held_state.get())
        self._all = list(self._seen_state.get())
        self._mine: int | None = None

    def _seen(self) -> int:
        if self._mine is None:  # only now is it known which subtask this is
            self._mine = sum(count for stage, subtask, count in self._all if (stage, subtask) == self._me)
        return self._mine

    @property
    def _me(self) -> tuple[int, int]:
        return self._stage, self._subtask

    def snapshot_state(self, context: Any) -> None:
        self._held_state.update(self._held)
        former = [entry for entry in self._all if entry[0] != self._stage] if self._subtask == 0 else []
        self._seen_state.update([*former, (*self._me, self._seen())])

    def flat_map(self, value: Any) -> Iterator[tuple[int, int]]:
        number = value[0] if isinstance(value, tuple) else value
        self._mine = self._seen() + 1
        self._held.append(number)
        if number % STAGE < KEYS:
            former = sum(count for stage, _, count in self._all if stage != self._stage)
            for held in self._held:
                yield held, former
            self._held = []


class Remember(KeyedBroadcastProcessFunction):
    """Keyed state of every kind, a timer for the next stage in each domain, and the rules."""

    def __init__(self, processing_time: bool) -> None:
        self._processing_time = processing_time

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._laps = runtime_context.get_map_state(MapStateDescriptor("laps", Types.LONG(), Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[Any, ...]]:
        number, former = value
        key = ctx.get_current_key()
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        self._numbers.add(number)
        lap = number // KEYS % LAPS
        self._laps.put(lap, (self._laps.get(lap) or 0) + 1)
        due = 1000 * (number // STAGE + 1) + key
        ctx.timer_service().register_event_time_timer(due)
        if self._processing_time:
            ctx.timer_service().register_processing_time_timer(due)
        rules = tuple(sorted(rule for rule, _ in ctx.get_broadcast_state(RULES).items()))
        yield "number", key, number, count, former, rules
        if count == PER_KEY:
            yield "all", key, tuple(sorted(self._numbers.get())), tuple(sorted(self._laps.items()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rule = value[0] if isinstance(value, tuple) else value
        ctx.get_broadcast_state(RULES).put(rule, rule)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        domain = "event" if ctx.time_domain().name == "EVENT_TIME" else "processing"
        yield domain, ctx.get_current_key(), timestamp


def program(numbers: DataStream, rules: BroadcastStream, stage: int, processing_time: bool) -> DataStream:
    freed = numbers.flat_map(Hold(stage), output_type=ANY).uid("hold")
    keyed = freed.key_by(lambda value: value[0] % KEYS, key_type=Types.LONG())
    return keyed.connect(rules).process(Remember(processing_time), output_type=ANY).uid("remember")


def differences(results: Iterable[tuple[Any, ...]], one_rule: bool, processing_time: bool) -> list[str]:
    """What is not as it must be; nothing if all is well.

    :param one_rule: one rule came before everything else; otherwise one before each stage
    """
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, *rest in results:
        found.setdefault(name, []).append(tuple(rest))
    wrong = []

    def compare(what: str, got: Iterable[Any], expected: Iterable[Any]) -> None:
        missing, more = Counter(expected) - Counter(got), Counter(got) - Counter(expected)
        if missing or more:
            wrong.append(f"{what}: {list(missing)[:3]} missing, {list(more)[:3]} too many")

    told = found.get("number", [])
    compare("numbers", [number for _, number, *_ in told], range(NUMBERS))
    compare("counts", [(key, n) for key, _, n, *_ in told], [(k, n + 1) for k in range(KEYS) for n in range(PER_KEY)])
    for _, number, _, former, rules in told:
        # A number that was held back is set free by the next stage, which sees more.
        stage = number // STAGE + (number % STAGE >= KEYS)
        if former != stage * STAGE:
            wrong.append(f"number {number}: {former} numbers in former stages")
        if rules != ((0,) if one_rule else tuple(range(stage + 1))):
            wrong.append(f"number {number}: rules {rules}")
    lap_counts = Counter(number // KEYS % LAPS for number in range(0, NUMBERS, KEYS))
    of_key = [(k, tuple(range(k, NUMBERS, KEYS)), tuple(sorted(lap_counts.items()))) for k in range(KEYS)]
    compare("state at the end", found.get("all", []), of_key)
    stages = range(len(PARALLELISMS) + 1)
    compare("event-time timers", found.get("event", []), [(k, 1000 * (s + 1) + k) for k in range(KEYS) for s in stages])
    # Those of the last lap are dropped with the end of the input.
    fired = [(k, 1000 * (s + 1) + k) for k in range(KEYS) for s in stages[:-1]] if processing_time else []
    compare("processing-time timers", found.get("processing", []), fired)
    return wrong
