"""A stream beside a broadcast one, against a plain model, whatever the cut and whatever is lost on the way.

Of what arrives in the same step, the broadcast side comes first; of several subtasks of its source, the first one.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.checkpointed import CheckpointedFunction
from beadline.api.output_tag import OutputTag
from beadline.api.process import BroadcastProcessFunction, KeyedBroadcastProcessFunction, KeyedStateFunction
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.api.time_domain import TimeDomain
from beadline.common.typeinfo import Types
from beadline.common.watermark_strategy import WatermarkStrategy
from beadline.errors import JobExecutionError
from beadline.graph.specs import Rebalance, TimestampsSpec
from beadline.runtime.exchange.gate import MIN_WATERMARK
from tests.graph.programs import ANY, Program, by
from tests.runtime.harness import Given, Job
from tests.timestamps import At

RULES = MapStateDescriptor("rules", Types.STRING(), ANY)
SUMS = ValueStateDescriptor("sum", Types.LONG())

Rule = tuple[str, Any]
Event = tuple[str, int]
rules = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.lists(st.integers(0, 9), max_size=2)), max_size=12)
events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=25)
cuts = st.lists(st.integers(0, 5), max_size=8).map(lambda sizes: [*sizes, 4])
hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def key(event: Event) -> str:
    return event[0]


def job_of(
    function: Any, folder: Path, parallelism: int, seed: int | None = None, rule_sources: int = 1, **options: Any
) -> Job:
    """Node 1 reads rules, node 2 events, node 3 is the function."""
    program = Program()
    rules = program.source(Given(), parallelism=rule_sources)
    events: Any = program.source(Given(), parallelism=1)
    if options.pop("timed", False):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
        events = program.add("times", TimestampsSpec(strategy, 1), events, parallelism=1)
        rules = program.add("rule times", TimestampsSpec(strategy, 1), rules, parallelism=rule_sources)
    keyed = isinstance(function, KeyedBroadcastProcessFunction)
    stream = (events, by(key)) if keyed else (events, Rebalance())
    program.collect(program.broadcast(function, options.pop("descriptors", (RULES,)), stream, rules))
    trouble = None if seed is None else random.Random(seed)
    limit = 0 if seed and seed % 2 else 20 << 10
    return Job(program, folder, parallelism, workers=2, trouble=trouble, inline_limit=limit)


def steps(rules: list[list[Rule]], events: list[Event], sizes: list[int]) -> Iterator[tuple[list[Rule], list[Event]]]:
    """What each step reads, as the harness cuts it."""
    at, sizes = 0, list(sizes)
    while any(part[at:] for part in rules) or events[at:]:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        yield [rule for part in rules for rule in part[at : at + size]], events[at : at + size]
        at += size


# -- without a key


class Apply(BroadcastProcessFunction[Any, Any, Any]):
    """A rule replaces the one of its name, None removes it. An event is sent on with all rules there are."""

    def process_broadcast_element(self, value: Rule, ctx: BroadcastProcessFunction.Context) -> None:
        name, rule = value
        state = ctx.get_broadcast_state(RULES)
        if rule is None:
            state.remove(name)
        else:
            # A rule grows with each version of it; the old value is a copy.
            old = state.get(name) or []
            old.extend(rule)
            state.put(name, old)
            old.append("not in the state")

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        assert dict(state.items()) == {name: state.get(name) for name in state}
        assert (value[0] in state) == state.contains(value[0])
        yield value, sorted((name, tuple(rule)) for name, rule in state.items())


@hypothesis
@given(st.lists(rules, min_size=1, max_size=3), events, cuts, st.integers(0, 99), st.integers(1, 4))
def test_events_meet_the_rules_of_their_step(
    tmp_path: Path,
    given_rules: list[list[Rule]],
    given_events: list[Event],
    sizes: list[int],
    seed: int,
    parallelism: int,
) -> None:
    job = job_of(Apply(), tmp_path, parallelism, seed, rule_sources=len(given_rules))
    job.work_through({1: given_rules, 2: [given_events]}, sizes)
    state: dict[str, list[int]] = {}
    expected: Counter[Any] = Counter()
    for new_rules, new_events in steps(given_rules, given_events, sizes):
        for name, rule in new_rules:
            if rule is None:
                state.pop(name, None)
            else:
                state[name] = [*state.get(name, []), *rule]
        for event in new_events:
            expected[event, tuple(sorted((name, tuple(rule)) for name, rule in state.items()))] += 1
    assert Counter((event, tuple(seen)) for event, seen in job.out.get("out", [])) == expected
    versions = {handle.version for (node, _), handle in job.states.items() if node == 3}
    assert len(versions) == 1, "all subtasks hold the same"
    assert job.warnings == []


def test_another_parallelism_gets_copies(tmp_path: Path) -> None:
    before = job_of(Apply(), tmp_path, 2)
    before.step({1: [[("a", [1]), ("b", [2])]]})
    for parallelism in (1, 3):
        after = job_of(Apply(), tmp_path, parallelism).go_back(before.savepoint())
        after.step({2: [[("x", i) for i in range(6)]]})
        assert len(after.out["out"]) == 6
        assert {tuple(seen) for _, seen in after.out["out"]} == {(("a", (1,)), ("b", (2,)))}


def test_a_function_object_stays_when_rules_change(tmp_path: Path) -> None:
    """Its fields are not in the state, so nothing has to be opened again."""
    job = job_of(Apply(), tmp_path, 1)
    job.workers = job.workers[:1]
    job.step({1: [[("a", [1])]]})
    (operators,) = [found for (level, _), found in job.workers[0].operators.items() if level == 1]
    job.attempt({1: [[("a", [7])]]})  # never sealed
    job.step({2: [[("x", 1)]]})
    assert job.workers[0].operators[1, 0] is operators
    assert job.out["out"] == [(("x", 1), [("a", (1,))])]


class Spoil(Apply):
    """Changes what it was only to read."""

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        rule = ctx.get_broadcast_state(RULES).get("a")
        yield value, rule
        rule.append("spoilt")


def test_changes_in_place_are_lost_and_reported(tmp_path: Path) -> None:
    job = job_of(Spoil(), tmp_path, 1)
    job.workers = job.workers[:1]
    job.step({1: [[("a", [1])]], 2: [[("x", 1)]]})
    job.step({2: [[("x", 2)]]})
    job.step({1: [[("b", [2])]], 2: [[("x", 3)]]})
    assert job.out["out"] == [(("x", 1), [1]), (("x", 2), [1]), (("x", 3), [1])]
    (warning,) = job.warnings
    assert "the value of key 'a' in broadcast state 'rules' was changed in place" in warning


class Both(Apply, CheckpointedFunction):
    """A broadcast function with a state of its own, and with the broadcast state in its initialization."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.rules = store.get_broadcast_state(RULES)
        self.state = store.get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.count = sum(self.state.get())
        self.restored = len(list(self.rules.keys()))

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.count])

    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.count += 1
        yield self.count, self.restored, len(list(ctx.get_broadcast_state(RULES).keys()))


def test_a_broadcast_function_may_have_other_operator_state_too(tmp_path: Path) -> None:
    job = job_of(Both(), tmp_path, 1)
    job.step({1: [[("a", [1]), ("b", [1])]], 2: [[("x", 1)]]})
    job.workers = [job.new_worker()]
    job.step({1: [[("c", [1])]], 2: [[("x", 2), ("x", 3)]]})
    assert job.out["out"] == [(1, 0, 2), (2, 2, 3), (3, 2, 3)]


# -- with a key


class Sums(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Sums by key. The rule ``(name, None)`` sets all sums to 0 where they are; others are kept and counted."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(SUMS)

    def process_broadcast_element(self, value: Rule, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        if value[1] is not None:
            state[value[0]] = value[1]
            return
        found: list[tuple[str, int]] = []

        def reset(key: str, state: Any) -> None:
            found.append((key, state.value()))
            state.clear()

        ctx.apply_to_keyed_state(SUMS, reset)
        yield from (("reset", *entry) for entry in found)

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        assert ctx.get_current_key() == value[0]
        self.sum.update((self.sum.value() or 0) + value[1] + 1)
        yield value[0], self.sum.value(), len(list(ctx.get_broadcast_state(RULES).keys()))


@hypothesis
@given(rules, events, cuts, st.integers(0, 99), st.integers(1, 4))
def test_keyed_state_beside_rules(
    tmp_path: Path, given_rules: list[Rule], given_events: list[Event], sizes: list[int], seed: int, parallelism: int
) -> None:
    job = job_of(Sums(), tmp_path, parallelism, seed)
    job.work_through({1: [given_rules], 2: [given_events]}, sizes)
    sums: dict[str, int] = {}
    names: set[str] = set()
    expected: list[Any] = []
    for new_rules, new_events in steps([given_rules], given_events, sizes):
        for name, rule in new_rules:
            if rule is None:
                expected += [("reset", *entry) for entry in sums.items()]
                sums.clear()
            else:
                names.add(name)
        for name, number in new_events:
            sums[name] = sums.get(name, 0) + number + 1
            expected.append((name, sums[name], len(names)))
    assert Counter(job.out.get("out", [])) == Counter(expected)


class Lengths(KeyedStateFunction[str]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process(self, key: str, state: Any) -> None:
        self.seen.append((key, len(list(state))))


class Everything(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """State of other kinds, seen from the broadcast side."""

    LIST = ListStateDescriptor("list", Types.LONG())
    MAP = MapStateDescriptor("map", Types.LONG(), Types.LONG())

    def open(self, runtime_context: Any) -> None:
        self.list = runtime_context.get_list_state(self.LIST)
        self.map = runtime_context.get_map_state(self.MAP)

    def process_broadcast_element(self, value: Rule, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        for descriptor in (self.LIST, self.MAP):
            function = Lengths()
            ctx.apply_to_keyed_state(descriptor, function)
            yield descriptor.name, function.seen

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        if value[1] == 0:
            self.list.clear()
        else:
            self.list.add(value[1])
            self.map.put(value[1], 1)


def test_all_keys_of_any_state_in_a_fixed_order(tmp_path: Path) -> None:
    expected = [("list", [("a", 2), ("c", 1)]), ("map", [("a", 2), ("b", 1), ("c", 1)])]
    for order in ("abc", "cba", "bca"):
        job = job_of(Everything(), tmp_path, 1)
        numbers = {"a": [1, 2], "b": [1, 0], "c": [5]}
        job.step({2: [[(name, number) for name in order for number in numbers[name]]]})
        job.workers = [job.new_worker()]
        job.step({1: [[("x", [1])]]})
        assert job.out["out"] == expected


LATE = OutputTag("late", ANY)


class Remind(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """A timer 10 after each event; it tells what the rules are then."""

    def process_broadcast_element(self, value: Rule, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        ctx.get_broadcast_state(RULES).put("limit", value[1])
        yield "rule", ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield "event", ctx.timestamp(), ctx.current_watermark(), ctx.timer_service().current_processing_time()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        limit = ctx.get_broadcast_state(RULES).get("limit")
        yield "timer", ctx.get_current_key(), timestamp, ctx.timestamp(), limit


def test_timers_and_clocks(tmp_path: Path) -> None:
    job = job_of(Remind(), tmp_path, 1, timed=True)
    job.step({1: [[("x", 100)]], 2: [[("a", 1), ("b", 5)]]}, now=7)
    # The rules' watermark stands at 99, the events' before each event at one less than the event before it.
    assert job.out["out"] == [("rule", 100, MIN_WATERMARK, 7), ("event", 1, MIN_WATERMARK, 7), ("event", 5, 0, 7)]
    job.step({2: [[("a", 13)]]})
    job.step({1: [[("x", 200)]], 2: [[("a", 30)]]})
    assert job.out["out"][3:] == [
        ("event", 13, 4, 7),
        ("timer", "a", 11, 11, 100),
        ("rule", 200, 12, 7),
        ("event", 30, 12, 7),
        ("timer", "b", 15, 15, 200),
        ("timer", "a", 23, 23, 200),
    ]


# -- what is refused


class Writes(Apply):
    def __init__(self, how: str) -> None:
        self.how = how

    def process_element(self, value: Any, ctx: Any) -> None:
        state = ctx.get_broadcast_state(RULES)
        {
            "put": lambda: state.put("a", 1),
            "put_all": lambda: state.put_all({"a": 1}),
            "set": lambda: state.__setitem__("a", 1),
            "del": lambda: state.__delitem__("a"),
            "remove": lambda: state.remove("a"),
            "clear": lambda: state.clear(),
        }[self.how]()


@pytest.mark.parametrize("how", ["put", "put_all", "set", "del", "remove", "clear"])
def test_the_other_side_only_reads(tmp_path: Path, how: str) -> None:
    with pytest.raises(JobExecutionError, match=r"'rules' can only be read here, .* process_broadcast_element\(\)"):
        job_of(Writes(how), tmp_path, 1).step({2: [[("a", 1)]]})


class Keeps(Apply):
    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        self.state = ctx.get_broadcast_state(RULES)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.put("a", 1)


def test_also_with_a_state_that_was_kept(tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match=r"'rules' was kept from process_broadcast_element\(\) and is written"):
        job_of(Keeps(), tmp_path, 1).step({1: [[("a", 1)]], 2: [[("a", 1)]]})


class Asks(Apply):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(MapStateDescriptor("other", Types.STRING(), ANY))


def test_states_must_be_declared(tmp_path: Path) -> None:
    message = r"'other' is no broadcast state of this stream, which has 'rules'\. Name its descriptor .* broadcast\("
    with pytest.raises(JobExecutionError, match=message):
        job_of(Asks(), tmp_path, 1).step({2: [[("a", 1)]]})


@pytest.mark.parametrize("what", ["read", "write", "timer", "read after all keys"])
def test_no_key_on_the_broadcast_side(tmp_path: Path, what: str) -> None:
    class Keyed(Sums):
        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            if what == "read":
                self.sum.value()
            elif what == "write":
                self.sum.update(1)
            elif what == "read after all keys":
                ctx.apply_to_keyed_state(SUMS, lambda key, state: None)
                self.sum.value()
            else:
                self.timers.register_processing_time_timer(5)

        def process_element(self, value: Any, ctx: Any) -> None:
            self.sum.update(1)
            self.timers = ctx.timer_service()

    job = job_of(Keyed(), tmp_path, 1)
    job.workers = job.workers[:1]
    job.step({2: [[("a", 1)]]})
    with pytest.raises(
        JobExecutionError, match=r"no current key in process_broadcast_element\(\), .*apply_to_keyed_state"
    ):
        job.step({1: [[("a", 1)]]})


def test_values_of_declared_type(tmp_path: Path) -> None:
    numbers = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    with pytest.raises(JobExecutionError, match=r"state 'rules': .* Long"):
        job_of(Apply(), tmp_path, 1, descriptors=(numbers,)).step({1: [[("a", [1])]]})


def test_groups_of_results(tmp_path: Path) -> None:
    """A broadcast element's results come once from each subtask."""
    job = job_of(Sums(), tmp_path, 3)
    job.step({2: [[("a", 1), ("b", 1), ("c", 1)]]})
    job.step({1: [[("x", None)]]})
    seen = defaultdict(list)
    for kind, *rest in job.out["out"]:
        seen[kind].append(tuple(rest))
    assert sorted(seen["reset"]) == [("a", 2), ("b", 2), ("c", 2)]
