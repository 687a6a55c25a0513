"""Joins in whole programs: what is refused when they are declared, and what they give on Spark."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from beadline.common import Duration, Row, Time, Types, WatermarkStrategy
from beadline.datastream import (
    CoGroupFunction,
    JoinFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from beadline.datastream.functions import FlatJoinFunction
from beadline.datastream.window import DeltaTrigger, EventTimeSessionWindows, TumblingEventTimeWindows
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError, UnsupportedFeatureError
from tests.datastream.jobs import collect, environment
from tests.timestamps import At

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def key(record: Any) -> Any:
    return record[0]


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[0], first[1], second[1]


class Missing(CoGroupFunction):
    """Elements of the first stream that have no partner: an anti join."""

    def co_group(self, first: Any, second: Any) -> Any:
        if not second:
            yield from first


class Meet(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left[0], left[1], right[1]


# -- what is refused


def plain_streams() -> tuple[Any, Any]:
    env = StreamExecutionEnvironment()
    return env.from_collection([("a", 1)]), env.from_collection([("a", 2)])


@pytest.mark.parametrize("method", ["join", "co_group"])
def test_parts_that_are_missing_are_named(method: str) -> None:
    one, two = plain_streams()
    start = getattr(one, method)(two)
    for attempt, needed in [
        (lambda: start.window(TEN), r"where\(…\) and equal_to\(…\)"),
        (lambda: start.equal_to(key), r"where\(…\)"),
        (lambda: start.apply(Pair()), r"where\(…\), equal_to\(…\) and window\(…\)"),
        (lambda: start.where(key).window(TEN), r"equal_to\(…\)"),
        (lambda: start.where(key).apply(Pair()), r"equal_to\(…\) and window\(…\)"),
        (lambda: start.where(key).equal_to(key).apply(Pair()), r"window\(…\)"),
    ]:
        with pytest.raises(GraphError, match=f"too early: call {needed} first"):
            attempt()


@pytest.mark.parametrize("method", ["join", "co_group"])
def test_keys_of_different_declared_types(method: str) -> None:
    one, two = plain_streams()
    where = getattr(one, method)(two).where(key, Types.STRING())
    with pytest.raises(TypeMismatchError, match=r"(?s)one type, but .*String.* and .*Long"):
        where.equal_to(lambda e: e[1], Types.LONG())
    where.equal_to(key, Types.STRING())
    where.equal_to(key)


def test_functions_of_the_wrong_kind() -> None:
    one, two = plain_streams()
    joined = one.join(two).where(key).equal_to(key).window(TEN)
    grouped = one.co_group(two).where(key).equal_to(key).window(TEN)
    for wrong in (Missing(), Meet(), 5):
        with pytest.raises(TypeMismatchError, match="JoinFunction"):
            joined.apply(wrong)
    with pytest.raises(TypeMismatchError, match=r"did you mean Pair\(\)"):
        joined.apply(Pair)
    with pytest.raises(TypeMismatchError, match="CoGroupFunction"):
        grouped.apply(Pair())
    with pytest.raises(TypeMismatchError, match="KeySelector"):
        one.join(two).where("f0")
    with pytest.raises(TypeMismatchError, match="WindowAssigner"):
        one.join(two).where(key).equal_to(key).window(10)


def test_windows_of_a_join_are_checked_like_others() -> None:
    one, two = plain_streams()
    start = one.join(two).where(key).equal_to(key)
    sessions = start.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    with pytest.raises(GraphError, match="can't merge"):
        sessions.trigger(DeltaTrigger.of(1, lambda a, b: 0))
    with pytest.raises(ConfigurationError, match="0 or more"):
        sessions.allowed_lateness(-1)
    with pytest.raises(TypeMismatchError, match="Evictor"):
        sessions.evictor(3)
    assert not hasattr(sessions, "side_output_late_data"), "as in Flink"


def test_streams_that_can_not_meet() -> None:
    one, _ = plain_streams()
    other, _ = plain_streams()
    for join in (one.join, one.co_group, one.key_by(key).interval_join):
        with pytest.raises(TypeMismatchError, match="takes a DataStream, got list"):
            join([1])
    for join, stranger in (
        (one.join, other),
        (one.co_group, other),
        (one.key_by(key).interval_join, other.key_by(key)),
    ):
        with pytest.raises(GraphError, match="one environment"):
            join(stranger)


def test_an_interval_join_needs_keys() -> None:
    one, two = plain_streams()
    with pytest.raises(GraphError, match=r"call key_by\(\) on both"):
        one.interval_join(two.key_by(key))
    with pytest.raises(GraphError, match=r"call key_by\(\) on the other"):
        one.key_by(key).interval_join(two)


def test_intervals_that_can_not_be() -> None:
    one, two = plain_streams()
    joined = one.key_by(key).interval_join(two.key_by(key))
    with pytest.raises(ConfigurationError, match=r"lower bound \(5 ms\) is larger than the upper bound \(-5 ms\)"):
        joined.between(Time.milliseconds(5), Time.milliseconds(-5))
    with pytest.raises(TypeMismatchError, match="lower bound must be a Time or a Duration"):
        joined.between(-5, Time.milliseconds(5))
    with pytest.raises(UnsupportedFeatureError, match="only supported in event time"):
        joined.in_processing_time()
    point = joined.between(Time.milliseconds(5), Duration.of_millis(5))
    assert repr(point).endswith("between [5 ms, 5 ms]>")
    with pytest.raises(ConfigurationError, match=r"\[5 ms, 5 ms\) of the join is empty"):
        point.upper_bound_exclusive().process(Meet())
    with pytest.raises(TypeMismatchError, match="ProcessJoinFunction, got function"):
        joined.between(Time.milliseconds(0), Time.milliseconds(5)).process(lambda a, b: a)
    with pytest.raises(TypeMismatchError, match="takes an OutputTag"):
        point.side_output_left_late_data("late")


def test_interval_joins_with_keys_or_tags_of_two_types() -> None:
    one, two = plain_streams()
    joined = one.key_by(key, Types.STRING()).interval_join(two.key_by(lambda e: e[1], Types.INT()))
    interval = joined.between(Time.milliseconds(0), Time.milliseconds(5))
    with pytest.raises(TypeMismatchError, match="one type"):
        interval.process(Meet())
    joined = one.key_by(key).interval_join(two.key_by(key)).between(Time.milliseconds(0), Time.milliseconds(5))
    joined.side_output_left_late_data(OutputTag("late", Types.STRING()))
    joined.side_output_right_late_data(OutputTag("late", Types.INT()))
    with pytest.raises(GraphError, match="two types"):
        joined.process(Meet())


# -- on Spark


def timed(env: Any, records: list[Any], type_info: Any = None) -> Any:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(At())
    return env.from_collection(records, type_info).assign_timestamps_and_watermarks(strategy)


LEFT = [("ab"[t % 2], t) for t in range(60)]
RIGHT = [("ab"[t // 5 % 2], t) for t in range(0, 60, 5)]


class Ascending(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        if first[1] < second[1]:
            yield first[1], second[1]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_window_joins_and_co_groups() -> None:
    pair_type = Types.TUPLE([Types.STRING(), Types.INT()])
    env = environment(step_records=50)
    left, right = timed(env, LEFT, pair_type), timed(env, RIGHT, pair_type)
    joined = left.join(right).where(key, Types.STRING()).equal_to(key, Types.STRING()).window(TEN)
    triple = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
    result = joined.apply(Pair(), triple).union(
        joined.apply(Ascending()).map(lambda ab: ("flat", *ab), triple),
        left.co_group(right)
        .where(key)
        .equal_to(key)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(3)))
        .apply(Missing())
        .map(lambda alone: ("alone", alone[1], 0), triple),
    )
    pairs = [(a, b) for a in LEFT for b in RIGHT if a[0] == b[0] and a[1] // 10 == b[1] // 10]
    expected = [(a[0], a[1], b[1]) for a, b in pairs]
    expected += [("flat", a[1], b[1]) for a, b in pairs if a[1] < b[1]]
    expected += [("alone", a[1], 0) for a in LEFT if not any(a[0] == b[0] and a[1] // 3 == b[1] // 3 for b in RIGHT)]
    assert Counter(collect(result)) == Counter(expected)
    assert {"flat", "alone", "a", "b"} == {name for name, _, _ in expected}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_interval_join_and_late_elements() -> None:
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))
    env = environment(step_records=20, beadline__watermark__records=1)
    # Each step reads ten elements of both streams, so the watermark is 5 at least when the second step begins.
    left = [*LEFT[:10], ("a", 1), *LEFT[10:], ("b", 2)]
    joined = timed(env, left).key_by(key).interval_join(timed(env, RIGHT).key_by(key))
    interval = joined.between(Time.milliseconds(-7), Time.milliseconds(2)).upper_bound_exclusive()
    result = interval.side_output_left_late_data(late).process(Meet())
    everything = result.union(result.get_side_output(late).map(lambda e: ("late", *e)))
    expected = Counter((a[0], a[1], b[1]) for a in LEFT for b in RIGHT if a[0] == b[0] and -7 <= b[1] - a[1] < 2)
    assert len(expected) > 40
    expected += Counter([("late", "a", 1), ("late", "b", 2)])
    assert Counter(collect(everything)) == expected


@pytest.mark.spark
def test_lookup_in_a_dataframe(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The DataFrame is evaluated once and broadcast once, in whatever number of steps; closures stay small."""
    from pyspark.serializers import CloudPickleSerializer

    from beadline.master.spark.engine import SparkEngine

    broadcasts: list[int] = []
    closures: list[int] = []
    broadcast, dumps = SparkEngine.broadcast, CloudPickleSerializer.dumps

    def counted_broadcast(self: Any, data: Any) -> Any:
        broadcasts.append(len(pickle.dumps(data)))
        return broadcast(self, data)

    def counted_dumps(self: Any, value: Any) -> bytes:
        data: bytes = dumps(self, value)
        closures.append(len(data))
        return data

    df = spark.range(20_000).selectExpr("id % 10000 as id", "uuid() as noise", "id >= 10000 as second")
    env = environment(step_records=50)
    steps: list[Any] = []
    env.add_step_listener(steps.append)
    elements = env.from_collection(list(range(0, 400, 2))).map(lambda n: Row(id=n if n < 300 else n + 10**6))
    stream = elements.lookup(df, on="id", how="left")
    stream = stream.map(lambda pair: (pair[0].id, None if pair[1] is None else (pair[1].second, pair[1].noise)))
    monkeypatch.setattr(SparkEngine, "broadcast", counted_broadcast)
    monkeypatch.setattr(CloudPickleSerializer, "dumps", counted_dumps)
    found = collect(stream)
    assert Counter(n for n, _ in found) == Counter(
        n if n < 300 else n + 10**6 for n in range(0, 400, 2) for _ in range(2 if n < 300 else 1)
    )
    assert all((row is None) == (n > 300) for n, row in found)
    first = {n: noise for n, row in found if row is not None and not row[0] for noise in [row[1]]}
    assert len(set(first.values())) == 150, "uuid() was evaluated once, for all rows"
    assert len(steps) >= 4
    assert sum(size > 400_000 for size in broadcasts) == 1, broadcasts
    assert max(closures) < 100_000
