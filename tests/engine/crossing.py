"""Everything that must cross a change of parallelism, in one program, and what it must be, in dictionaries.

What comes in are commands. A command to a key changes that key's state or timers, or reads all of it; a command to all,
which is broadcast, changes the rules, or asks every subtask for its operator state.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from beadline.common import Time, Types
from beadline.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
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

ANY = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
TTL = 10
KEYS = 24


def _lives(refreshed: bool) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).never_return_expired()
    return (builder.update_ttl_on_read_and_write() if refreshed else builder.update_ttl_on_create_and_write()).build()


class Total(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


def _descriptor(kind: str, name: str) -> Any:
    if kind == "value":
        return ValueStateDescriptor(name, Types.LONG())
    if kind == "list":
        return ListStateDescriptor(name, Types.LONG())
    if kind == "map":
        return MapStateDescriptor(name, Types.LONG(), Types.LONG())
    if kind == "reducing":
        return ReducingStateDescriptor(name, lambda a, b: a + b, Types.LONG())
    return AggregatingStateDescriptor(name, Total(), ANY)


KINDS = ("value", "list", "map", "reducing", "aggregating")
LIVES = ("forever", "written", "read")
STATES = [(kind, life) for kind in KINDS for life in LIVES]


class Keyed(KeyedBroadcastProcessFunction):
    """State of every kind, with and without a time to live, and timers in both domains."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._states = {}
        for kind, life in STATES:
            descriptor = _descriptor(kind, f"{kind} {life}")
            if life != "forever":
                descriptor.enable_time_to_live(_lives(life == "read"))
            getter: Callable[[Any], Any] = getattr(
                runtime_context, {"value": "get_state"}.get(kind, f"get_{kind}_state")
            )
            self._states[kind, life] = getter(descriptor)

    def process_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[tuple[Any, ...]]:
        key, command, *rest = value
        timers = ctx.timer_service()
        if command == "rules":
            yield "rules", key, tuple(sorted(ctx.get_broadcast_state(RULES).items()))
        elif command in ("event", "processing"):
            delete, time = rest
            what = "delete" if delete else "register"
            getattr(timers, f"{what}_{command}_time_timer")(time)
        else:
            kind, life, *given = rest
            state = self._states[kind, life]
            if command == "clear":
                state.clear()
            elif command == "put":
                _put(kind, state, *given)
            else:
                yield "state", key, kind, life, _read(kind, state)

    def process_broadcast_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[Any]:
        command, *rest = value
        if command == "rule":
            ctx.get_broadcast_state(RULES).put(*rest)
        elif command == "no rule":
            ctx.get_broadcast_state(RULES).remove(*rest)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[Any, ...]]:
        """Its key's state is there."""
        domain = "event" if ctx.time_domain().name == "EVENT_TIME" else "processing"
        yield domain, ctx.get_current_key(), timestamp, self._states["value", "forever"].value()


def _put(kind: str, state: Any, value: int) -> None:
    if kind == "value":
        state.update(value)
    elif kind == "map":
        state.put(value % 3, value)
    else:
        state.add(value)


def _read(kind: str, state: Any) -> Any:
    if kind == "value":
        return state.value()
    if kind == "list":
        return tuple(state.get())
    if kind == "map":
        return tuple(sorted(state.items()))
    return state.get()


class Operators(BroadcastProcessFunction, CheckpointedFunction):
    """A list that is split, a union that all see whole, and rules that all have.

    :param generation: counts the programs; what belongs to an earlier one was handed to everybody
    """

    def __init__(self, generation: int) -> None:
        self._generation = generation

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._held_state = store.get_list_state(ListStateDescriptor("held", Types.LONG()))
        self._union_state = store.get_union_list_state(ListStateDescriptor("seen", ANY))
        self._held = list(self._held_state.get())
        self._union = [tuple(entry) for entry in self._union_state.get()]

    @property
    def _former(self) -> list[tuple[int, ...]]:
        return [entry for entry in self._union if entry[0] != self._generation]

    @property
    def _own(self) -> list[tuple[int, ...]]:
        return [entry for entry in self._union if entry[:2] == (self._generation, self._subtask)]

    def snapshot_state(self, context: Any) -> None:
        self._held_state.update(self._held)
        self._union_state.update([*(self._former if self._subtask == 0 else []), *self._own])

    def process_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[Any]:
        if value[1] != "hold":
            yield value
            return
        self._held.append(value[2])
        self._union.append((self._generation, self._subtask, value[2]))

    def process_broadcast_element(self, value: tuple[Any, ...], ctx: Any) -> Iterator[Any]:
        command, *rest = value
        if command == "rule":
            ctx.get_broadcast_state(RULES).put(*rest)
        elif command == "no rule":
            ctx.get_broadcast_state(RULES).remove(*rest)
        elif command == "tell":
            rules = tuple(sorted(ctx.get_broadcast_state(RULES).items()))
            former = tuple(sorted(entry[2] for entry in self._former))
            yield "told", self._subtask, tuple(self._held), former, rules
        elif command == "drop":
            self._held = [held for held in self._held if held % 2]


def program(generation: int) -> Callable[[DataStream, DataStream], DataStream]:
    """The first input has the commands to keys, the second those to all."""

    def applied(commands: DataStream, to_all: DataStream) -> DataStream:
        told = to_all.broadcast(RULES)
        held = commands.rebalance().connect(told).process(Operators(generation), ANY).uid("operators")
        answers = held.filter(lambda value: value[0] == "told").uid("answers")
        keyed = held.filter(lambda value: value[0] != "told").uid("commands")
        results = keyed.key_by(lambda value: value[0], Types.LONG()).connect(told).process(Keyed(), ANY).uid("keyed")
        return results.union(answers).map(lambda value: value, ANY).uid("both")

    return applied


# -- what it must be


class Expected:
    """The same in dictionaries. Each method gives what must come out."""

    def __init__(self) -> None:
        self.now = 0
        self.watermark: int | None = None
        #: The highest watermark there ever was: timers up to it have fired.
        self.passed = 0
        self.states: dict[tuple[int, str, str], Any] = {}
        self.timers: dict[str, set[tuple[int, int]]] = {"event": set(), "processing": set()}
        self.held: Counter[int] = Counter()
        self.seen: list[int] = []
        self.former: list[int] = []
        self.rules: dict[str, int] = {}

    def moved(self, same_parallelism: bool) -> None:
        """A new program goes on."""
        self.former = list(self.seen)
        if not same_parallelism:
            self.watermark = None  # event time starts again

    def _alive(self, key: int, kind: str, life: str) -> Any:
        """What is left of a state: for each entry when it was written, and the value."""
        entries = self.states.get((key, kind, life))
        if entries is None:
            return None
        if life != "forever":
            entries = {name: each for name, each in entries.items() if each[0] + TTL > self.now}
        self.states[key, kind, life] = entries
        return entries

    def put(self, key: int, kind: str, life: str, value: int) -> None:
        entries = dict(self._alive(key, kind, life) or {})
        if kind == "list":
            entries[max(entries, default=0) + 1] = (self.now, value)
        elif kind == "map":
            entries[value % 3] = (self.now, value)
        else:
            before = entries[0][1] if entries else None
            if kind == "reducing":
                value = value + (before or 0)
            made: Any = value
            if kind == "aggregating":
                count, total = before or (0, 0)
                made = (count + 1, total + value)
            entries[0] = (self.now, made)
        self.states[key, kind, life] = entries

    def clear(self, key: int, kind: str, life: str) -> None:
        self.states.pop((key, kind, life), None)

    def read(self, key: int, kind: str, life: str) -> Any:
        entries = self._alive(key, kind, life) or {}
        if life == "read":
            self.states[key, kind, life] = {name: (self.now, value) for name, (_, value) in entries.items()}
        if kind == "list":
            return tuple(value for _, (_, value) in sorted(entries.items()))
        if kind == "map":
            return tuple(sorted((name, value) for name, (_, value) in entries.items()))
        return entries[0][1] if entries else None

    def fire(self, domain: str, up_to: int) -> list[tuple[Any, ...]]:
        due = {timer for timer in self.timers[domain] if timer[0] <= up_to}
        self.timers[domain] -= due
        return [(domain, key, time, self.read(key, "value", "forever")) for time, key in sorted(due)]


def by_key(results: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """What came out of each key, in order; between keys there is none."""
    found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for result in results:
        found[result[1]].append(result)
    return dict(found)
