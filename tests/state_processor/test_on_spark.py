"""Reading state with Spark, making savepoints of DataFrames, and jobs that go on from them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import beadline
from beadline import state_processor
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Instant, Row, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.errors import BeadlineError, ConfigurationError, JobExecutionError
from beadline.state_processor import SavepointWriter
from beadline.testing import AwaitCheckpoint, Crash, Harness, KeyedHarness, TestSource
from tests.datastream.jobs import collect, environment
from tests.state_processor.functions import Forgetful, Order, Remembering, Shop, Undeclared
from tests.state_processor.local import as_harness_snapshot, rows, save, shop

pytestmark = pytest.mark.spark

PIECES = ValueStateDescriptor("pieces", Types.LONG())
ITEMS = ListStateDescriptor("items", Types.STRING())
BY_ITEM = MapStateDescriptor("by-item", Types.STRING(), Types.INT())


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    with shop(2, 128) as harness:
        harness.push_all([("ann", "tea", 2), ("bob", "milk", 1)])
        harness.push_all([("ann", "milk", 3)])
        return save(harness, tmp_path_factory.mktemp("saved") / "savepoint")


# -- reading


def test_state_is_queried_with_sql(spark: SparkSession, saved: str) -> None:
    reader = state_processor.read(spark, saved)
    operators = reader.operators().where("size(states) > 0").select("uid", "name", "parallelism", "key_type", "states")
    names = ["_event-timers", "by-item", "items", "last", "pieces"]
    assert rows(operators) == [("function", "Shop", 2, "STRING", names)]
    states = reader.states("function").where("kind = 'map'").select("name", "key_type", "type", "map_key_type")
    assert rows(states) == [("by-item", "STRING", "INT", "STRING")]

    reader.keyed_state("function", "pieces").createOrReplaceTempView("pieces")
    assert rows(spark.sql("SELECT key, value + 1 FROM pieces WHERE value > 1")) == [("ann", 6)]
    items = reader.keyed_state("function", "items").selectExpr("key", "explode(value) AS item")
    assert rows(items) == [("ann", "milk"), ("ann", "tea"), ("bob", "milk")]
    assert rows(reader.keyed_state("function", "by-item").selectExpr("key", "value['milk']")) == [
        ("ann", 3),
        ("bob", 1),
    ]
    assert rows(reader.keyed_state("function", "last").selectExpr("key", "value.pieces")) == [("ann", 3), ("bob", 1)]
    assert rows(reader.timers("function").select("key", "domain", "timestamp")) == [
        ("ann", "event", 200),
        ("ann", "event", 300),
        ("bob", "event", 100),
    ]
    longest = reader.keyed_state("function", "items", decode=lambda items: max(items, key=len), schema="string")
    assert rows(longest) == [("ann", "milk"), ("bob", "milk")]


def test_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """Written to state, read as a table, written to a savepoint again: what the program finds is what it wrote."""
    types = {
        "flag": (Types.BOOLEAN(), True),
        "small": (Types.SHORT(), -7),
        "real": (Types.DOUBLE(), 0.1),
        "big": (Types.BIG_INT(), 10**30),
        "exact": (Types.BIG_DEC(), Decimal("1.10")),
        "day": (Types.SQL_DATE(), dt.date(2026, 2, 3)),
        "time": (Types.SQL_TIME(), dt.time(1, 2, 3, 4000)),
        "moment": (Types.SQL_TIMESTAMP(), dt.datetime(2026, 2, 3, 4, 5, 6, 789000)),
        "instant": (Types.INSTANT(), Instant(1_700_000_000, 123_000_000)),
        "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "list": (Types.LIST(Types.LONG()), [1, 2]),
        "map": (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
        "pair": (Types.TUPLE([Types.STRING(), Types.INT()]), ("x", 1)),
    }
    info = Types.ROW_NAMED(list(types), [kind for kind, _ in types.values()])
    value = Row(**{name: value for name, (_, value) in types.items()})
    descriptor = ValueStateDescriptor("all", info)

    def keeping() -> KeyedHarness:
        return KeyedHarness(
            Keeping(descriptor), lambda _: ("k", 1), key_type=Types.TUPLE([Types.STRING(), Types.INT()])
        )

    with keeping() as harness:
        harness.push(value)
        path = save(harness, tmp_path / "one")
    df = state_processor.read(spark, path).keyed_state("function", "all")
    (shown,) = df.select("key.f0", "value.*").collect()
    assert shown.asDict()["moment"] == dt.datetime(2026, 2, 3, 4, 5, 6, 789000)
    assert (shown.f0, shown.flag, shown.big, shown.exact, shown["time"], shown["list"]) == (
        "k",
        True,
        Decimal(10**30),
        "1.10",
        "01:02:03.004000",
        [1, 2],
    )
    again = (
        SavepointWriter.from_existing(spark, path).with_keyed_state("function", "all", df).write(str(tmp_path / "two"))
    )
    with keeping() as harness:
        harness.restore(as_harness_snapshot(again))
        assert harness.state(descriptor, ("k", 1)) == value


class Keeping(Undeclared):
    """Keeps the last value."""

    def __init__(self, descriptor: ValueStateDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(self._descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value)


def test_registered_classes_reach_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    with KeyedHarness(Undeclared(), lambda order: order[0]) as harness:
        harness.push(("a", Order("tea", 2)))
        path = save(harness, tmp_path / "s")
    beadline.register_state_class(Order)
    found = state_processor.read(spark, path).keyed_state(
        "function", "last", decode=lambda order: (order.item, order.pieces), schema="item string, pieces int"
    )
    assert rows(found.select("key", "value.item", "value.pieces")) == [("a", "tea", 2)]


def test_a_diff_is_a_dataframe(spark: SparkSession, saved: str, tmp_path: Path) -> None:
    with shop(2, 128) as harness:
        harness.restore(Path(saved, "_metadata").read_bytes())
        harness.push_all([("ann", "", 0), ("bob", "tea", 4), ("eve", "tea", 1)])
        newer = save(harness, tmp_path / "newer")
    found = state_processor.diff(spark, saved, newer, "function", "pieces")
    assert rows(found.orderBy("key").select("key", "change", "before", "after")) == [
        ("ann", "removed", 5, None),
        ("bob", "changed", 1, 5),
        ("eve", "added", None, 1),
    ]


# -- writing


def customers(spark: SparkSession, number: int) -> DataFrame:
    """Customer i has i pieces, items i0 … i(i % 3), and i % 4 + 1 pieces of tea."""
    return spark.range(number).selectExpr(
        "concat('c', id) AS customer",
        "id AS n",
        "transform(sequence(0, id % 3), i -> concat('i', i)) AS list",
        "map('tea', CAST(id % 4 + 1 AS INT)) AS map",
    )


def test_a_jobs_state_is_bootstrapped_from_a_table(spark: SparkSession, tmp_path: Path) -> None:
    max_parallelism = 13
    df = customers(spark, 42).repartition(5)
    path = (
        SavepointWriter.new_savepoint(spark, max_parallelism)
        .with_keyed_state(
            "function", "pieces", df, key="customer", value="n", key_type=Types.STRING(), value_type=Types.LONG()
        )
        .with_keyed_state("function", "items", df, key="customer", value="list", kind="list", value_type=Types.STRING())
        .with_keyed_state(
            "function",
            "by-item",
            df,
            key="customer",
            value="map",
            kind="map",
            value_type=Types.INT(),
            map_key_type=Types.STRING(),
        )
        .with_timers("function", df.selectExpr("customer AS key", "'event' AS domain", "n * 10 AS timestamp"))
        .write(str(tmp_path / "bootstrapped"))
    )
    for parallelism in (1, 2, 4, 3):
        with shop(parallelism, max_parallelism) as harness:
            harness.restore(as_harness_snapshot(path))
            for i in range(42):
                assert harness.state(PIECES, f"c{i}") == i
                assert harness.state(ITEMS, f"c{i}") == [f"i{j}" for j in range(i % 3 + 1)]
                assert harness.state(BY_ITEM, f"c{i}") == {"tea": i % 4 + 1}
            assert harness.push(("c5", "milk", 2)) == [7]
            assert sorted(harness.advance_watermark(100)) == sorted((f"c{i}", 10 * i) for i in range(11))
    plain = spark.read.parquet(f"{path}/function/pieces")
    assert rows(plain.select("key", "value")) == sorted(((f"c{i}", i) for i in range(42)), key=repr)


def test_operator_state_and_timers_that_wake_the_job(spark: SparkSession, tmp_path: Path) -> None:
    numbers = spark.range(7).withColumnRenamed("id", "value")
    rules = spark.createDataFrame([("a", 1.5), ("b", 2.5)], "key string, value double")
    path = (
        SavepointWriter.new_savepoint(spark, 16)
        .with_list_state("function", "seen", numbers, value_type=Types.LONG())
        .with_union_state(
            "function", "union", numbers.selectExpr("concat('u', value) AS value"), value_type=Types.STRING()
        )
        .with_broadcast_state("function", "rules", rules, key_type=Types.STRING(), value_type=Types.DOUBLE())
        .write(str(tmp_path / "s"))
    )
    read = state_processor.read(spark, path)
    assert sorted(value for _, value in rows(read.list_state("function", "seen"))) == list(range(7))
    assert sorted(value for _, value in rows(read.union_state("function", "union"))) == [f"u{i}" for i in range(7)]
    assert rows(read.broadcast_state("function", "rules")) == [("a", 1.5), ("b", 2.5)]
    for parallelism in (1, 2, 3):
        with Harness(Remembering(), parallelism=parallelism) as harness:
            harness.restore(as_harness_snapshot(path))
            found = harness.push_all(["show"] * 6)
        assert {tuple(union) for _, union, _ in found} == {tuple(f"u{i}" for i in range(7))}
        assert all(rules == {"a": 1.5, "b": 2.5} for _, _, rules in found)
        shares = {tuple(seen) for seen, _, _ in found}
        assert sorted(n for share in shares for n in share) == list(range(7))
    timers = spark.createDataFrame(
        [("a", "processing", 70), ("b", "processing", 50)], "key string, domain string, timestamp long"
    )
    path = (
        SavepointWriter.new_savepoint(spark)
        .with_timers("t", timers, key_type=Types.STRING())
        .write(str(tmp_path / "t"))
    )
    (operator,) = read_snapshot(path).operators
    assert sorted(timer for timer in operator.next_timers if timer is not None)[0] == 50


def test_a_savepoint_is_edited(spark: SparkSession, saved: str, tmp_path: Path) -> None:
    with shop(2, 128) as harness:
        harness.restore(Path(saved, "_metadata").read_bytes())
        before = read_snapshot(saved)
        more = (
            state_processor.read(spark, saved)
            .keyed_state("function", "pieces")
            .withColumn("value", f.col("value") * 100)
        )
        path = (
            SavepointWriter.from_existing(spark, saved)
            .with_keyed_state("function", "pieces", more)
            .remove_state("function", "last")
            .change_max_parallelism("function", 7)
            .change_operator_identifier("function", "shop")
            .write(str(tmp_path / "edited"))
        )
    edited = state_processor.read(spark, path)
    assert rows(edited.keyed_state("shop", "pieces")) == [("ann", 500), ("bob", 100)]
    assert rows(edited.keyed_state("shop", "items")) == [("ann", ["tea", "milk"]), ("bob", ["milk"])]
    assert rows(edited.timers("shop").select("key", "timestamp")) == [("ann", 200), ("ann", 300), ("bob", 100)]
    with pytest.raises(SnapshotError, match="has no state named 'last'"):
        edited.keyed_state("shop", "last")
    assert {o.max_parallelism for o in read_snapshot(path).operators if o.uid == "shop"} == {7}
    assert read_snapshot(saved) == before
    back = (
        SavepointWriter.from_existing(spark, path)
        .change_operator_identifier("shop", "function")
        .write(str(tmp_path / "b"))
    )
    with shop(max_parallelism=7, parallelism=3) as harness:
        harness.restore(as_harness_snapshot(back))
        assert harness.push(("ann", "tea", 1)) == [501]
        assert harness.state(ITEMS, "ann") == ["tea", "milk", "tea"]


def test_time_to_live_and_windows_are_written(spark: SparkSession, tmp_path: Path) -> None:
    now = 10**13  # long after this test: nothing has expired
    df = spark.createDataFrame([("a", 1, now), ("b", 2, None)], "key string, value int, at long")
    path = (
        SavepointWriter.new_savepoint(spark)
        .with_keyed_state(
            "function", "value", df, timestamp="at", key_type=Types.STRING(), value_type=Types.INT(), ttl_ms=3_600_000
        )
        .write(str(tmp_path / "ttl"))
    )
    found = {
        key: (value, time)
        for key, value, time in rows(state_processor.read(spark, path).keyed_state("function", "value"))
    }
    assert found["a"] == (1, now)
    assert found["b"][0] == 2
    with KeyedHarness(Forgetful(), lambda pair: pair[0], key_type=Types.STRING()) as harness:
        harness.restore(as_harness_snapshot(path))
        harness.advance_processing_time(now + 3_599_999)
        assert harness.state(_expiring(), "a") == 1
        assert harness.state(_expiring(), "b") is None
    windows = spark.sql("SELECT 'k' AS key, named_struct('start', 0L, 'end', 10L) AS window, array(1, 2) AS value")
    path = (
        SavepointWriter.new_savepoint(spark)
        .with_keyed_state("w", "window-contents", windows, window="window", kind="list")
        .write(str(tmp_path / "windows"))
    )
    found = state_processor.read(spark, path).window_state("w", "window-contents", value_type=Types.INT())
    assert rows(found.select("key", "window.start", "window.end", "value")) == [("k", 0, 10, [1, 2])]


def _expiring() -> ValueStateDescriptor:
    from beadline.common import Time
    from beadline.datastream.state import StateTtlConfig

    descriptor = ValueStateDescriptor("value", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


Writing = Callable[[SavepointWriter, SparkSession], Any]


@pytest.mark.parametrize(
    ("writing", "message"),
    [
        (
            lambda w, s: w.with_keyed_state("u", "s", s.sql("SELECT 'a' AS k, 1 AS value")),
            "state 's' of operator 'u': the DataFrame has no column 'key'; it has 'k', 'value'",
        ),
        (
            lambda w, s: w.with_keyed_state("u", "s", s.sql("SELECT 'a' AS key, 1 AS value"), kind="list"),
            "is a list state: column 'value' holds an array, its elements of one key, and here it is int",
        ),
        (
            lambda w, s: w.with_keyed_state(
                "u", "s", s.sql("SELECT 'a' AS key, 1L AS value, 1L AS at"), timestamp="at"
            ),
            "has no time to live, so it takes no timestamp column",
        ),
        (
            lambda w, s: w.with_keyed_state("u", "s", s.range(10).selectExpr("id % 9 AS key", "id AS value")),
            "state 's' of operator 'u': key 0 comes twice",
        ),
        (
            lambda w, s: w.with_broadcast_state("u", "s", s.range(2).selectExpr("'a' AS key", "id AS value")),
            "key 'a' comes twice",
        ),
        (lambda w, s: w.remove_operator("nobody"), "has no operator with uid 'nobody'; there is none"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, writing: Writing, message: str
) -> None:
    with pytest.raises(BeadlineError, match=message) as raised:
        writing(SavepointWriter.new_savepoint(spark), spark).write(str(tmp_path / "s"))
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(spark: SparkSession, saved: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    writer = SavepointWriter.from_existing(spark, saved)
    for path in (str(tmp_path / "mine"), saved, str(tmp_path / "mine" / "file")):
        with pytest.raises(SnapshotError, match="exists already"):
            writer.write(path)
    assert (tmp_path / "mine" / "file").read_text() == "precious"
    with pytest.raises(SnapshotError, match="there is an operator with uid 'function' already"):
        SavepointWriter.from_existing(spark, saved).with_timers(
            "other", spark.sql("SELECT 'a' AS key, 'event' AS domain, 1L AS timestamp")
        ).change_operator_identifier("other", "function")
    with pytest.raises(ConfigurationError, match="are of type STRING, and key_type= says LONG"):
        writer.with_timers(
            "function", spark.sql("SELECT 1L AS key, 'event' AS domain, 1L AS timestamp"), key_type=Types.LONG()
        )


def test_the_guide_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "state-processor.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"spark": spark, "folder": str(tmp_path)}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 5


# -- a job


def program(script: list[Any], source_uid: str, **options: Any) -> Any:
    env: StreamExecutionEnvironment = environment(2, **options)
    numbers = env.from_source(TestSource(script), WatermarkStrategy.no_watermarks(), "numbers").uid(source_uid)
    orders = numbers.map(lambda n: (f"c{n % 5}", "tea", n), Types.PICKLED_BYTE_ARRAY())
    return orders.key_by(lambda order: order[0], Types.STRING()).process(Shop()).uid("shop")


def test_a_job_goes_on_from_an_edited_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """job → checkpoint → table → other values → savepoint → job."""
    options = {
        "execution__checkpointing__dir": str(tmp_path / "checkpoints"),
        "execution__checkpointing__interval": "100 ms",
        "execution__checkpointing__externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy__type": "none",
    }
    first = program([*range(1, 51), AwaitCheckpoint(), Crash()], "numbers", **options)
    with pytest.raises(JobExecutionError):
        collect(first)
    chosen = max(tmp_path.glob("checkpoints/*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-")))
    reader = state_processor.read(spark, str(chosen))
    totals = {f"c{k}": sum(n for n in range(1, 51) if n % 5 == k) for k in range(5)}
    pieces = reader.keyed_state("shop", "pieces")
    assert rows(pieces) == sorted(totals.items())

    more = pieces.where("key <> 'c3'").withColumn("value", f.col("value") + 1_000_000)
    writer = SavepointWriter.from_existing(spark, str(chosen)).with_keyed_state("shop", "pieces", more)
    path = writer.remove_operator("numbers").write(str(tmp_path / "edited"))
    second = program([1, 2, 3], "more", **{"execution__state-recovery__path": path})
    produced = collect(second)
    assert sorted(n for n in produced if isinstance(n, int)) == [3, totals["c1"] + 1_000_001, totals["c2"] + 1_000_002]
    # The timers of both jobs fire at the end of the input.
    assert sorted(timer for timer in produced if isinstance(timer, tuple)) == sorted(
        {(f"c{n % 5}", 100 * n) for n in range(1, 51)}
    )
