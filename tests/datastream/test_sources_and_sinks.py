"""Records in and out: readers written in Python, DataFrames, files, and jobs that never end by themselves."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
)

from beadline.common import Duration, Encoder, JobStatus, Row, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import KeyedProcessFunction, RuntimeExecutionMode
from beadline.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
)
from beadline.errors import JobExecutionError

from .jobs import collect, environment

pytestmark = pytest.mark.usefixtures("engine")

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class Slice(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class Numbers(DataSourceStreamReader):
    """Ten thousand numbers, in two partitions a range; the new style with a limit."""

    bounded = True
    total = 10_000

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(self.total, start["at"] + limit.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [Slice(start["at"], middle), Slice(middle, end["at"])]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return ((number,) for number in range(partition.first, partition.end))


class Unreachable(Numbers):
    """Its server is away when the driver asks whether there is more."""

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        if start["at"] > 0:
            raise ConnectionError("the server is away")
        return {"at": 100}


def test_a_source_that_fails_on_the_driver_is_named_with_its_position() -> None:
    stream = environment(1).from_source(Unreachable(), NO_WATERMARKS, "numbers")
    with pytest.raises(
        JobExecutionError, match=r"source 'numbers' failed at position {'at': 0}: ConnectionError: the server is away"
    ) as caught:
        collect(stream)
    assert caught.value.operator == "numbers"
    assert caught.value.__cause__ is None
    assert caught.value.__notes__[0].endswith('in latestOffset: raise ConnectionError("the server is away")')
    assert len((caught.value.user_traceback or "").splitlines()) == 4, "its own frame, between header and message"


class NumberSource(DataSource):
    def schema(self) -> str:
        return "number int"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return Numbers()


@pytest.mark.spark
@pytest.mark.parametrize("source", [Numbers(), NumberSource({})], ids=["reader", "data source"])
def test_a_reader_of_pyspark_is_a_source(source: Any) -> None:
    env = environment()
    stream = env.from_source(source, NO_WATERMARKS, "numbers").map(lambda row: row[0], output_type=Types.INT())
    assert sorted(collect(stream)) == list(range(Numbers.total))


@pytest.mark.spark
def test_a_reader_that_raises_names_the_source() -> None:
    class Broken(Numbers):
        def read(self, partition: Any) -> Iterator[tuple[int]]:
            raise OSError("the disk is gone")

    with pytest.raises(JobExecutionError, match=r"source broken.*while it read Slice\(.*end=\d+.*the disk is gone"):
        collect(environment().from_source(Broken(), NO_WATERMARKS, "broken"))


@pytest.mark.spark
def test_a_dataframe_in_and_out(spark: SparkSession) -> None:
    df = spark.range(0, 1000).selectExpr("id", "cast(id % 7 as string) as name")
    env = environment()
    rows = env.from_dataframe(df)
    named = Types.ROW_NAMED(["name", "total"], [Types.STRING(), Types.LONG()])
    totals = (
        rows.map(lambda row: Row(row.name, row.id), output_type=named)
        .key_by(lambda row: row[0])
        .max_by(1)
        .to_dataframe()
    )
    assert totals.columns == ["name", "total"]
    assert totals.schema["total"].dataType.simpleString() == "bigint"
    last = {row["name"]: row["m"] for row in totals.groupBy("name").agg({"total": "max"}).toDF("name", "m").collect()}
    assert last == {str(k): max(range(k, 1000, 7)) for k in range(7)}


def test_lines_of_plain_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\r\n\nthree")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("four\nfive\n")
    (tmp_path / "_hidden").write_text("no\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    stream = environment(step_records=1).from_source(source, NO_WATERMARKS, "lines")
    assert sorted(collect(stream)) == ["", "five", "four", "one", "three", "two"]


@pytest.mark.spark
def test_file_sink_shows_whole_files_with_every_row_once(tmp_path: Path) -> None:
    env = environment(step_records=100)
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("rows").with_part_suffix(".txt").build())
        .build()
    )
    env.from_sequence(1, 1000).sink_to(sink)
    env.execute()
    files = list((tmp_path / "out").iterdir())
    assert all(f.name.startswith("rows-") and f.suffix == ".txt" for f in files)
    assert len(files) == 2
    assert sorted(int(line) for f in files for line in f.read_text().split()) == list(range(1, 1001))


def test_file_sink_of_a_failed_job_shows_nothing(tmp_path: Path) -> None:
    env = environment(step_records=100)
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    env.from_sequence(1, 1000).map(lambda v: 1 // (v - 700), output_type=Types.LONG()).sink_to(sink)
    with pytest.raises(JobExecutionError):
        env.execute()
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_new_files_are_found_until_the_job_is_cancelled(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("first\n")
    env = environment(1)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    stream = env.from_source(builder.monitor_continuously(Duration.of_millis(100)).build(), NO_WATERMARKS, "folder")
    results: Any = stream.execute_and_collect()
    with results:
        assert next(results) == "first"
        (tmp_path / "b").write_text("second\n")
        assert next(results) == "second"


@pytest.mark.spark
def test_execute_async_status_and_cancel(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    env = environment(1)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    stream = env.from_source(builder.monitor_continuously(Duration.of_millis(100)).build(), NO_WATERMARKS, "folder")
    stream.map(lambda v: v).filter(lambda v: False).print()
    client = env.execute_async("never ends")
    deadline = time.monotonic() + 60
    while (status := client.get_job_status().result()) is JobStatus.CREATED and time.monotonic() < deadline:
        time.sleep(0.02)  # it runs when it is known where its source begins
    assert status is JobStatus.RUNNING
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="cancelled"):
        client.get_job_execution_result().result()


@pytest.mark.spark
def test_processing_time_timers_fire_without_new_data(tmp_path: Path) -> None:
    class Alarm(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + 500)
            return [("set", value)]

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield "rings", ctx.get_current_key(), ctx.time_domain().name

    (tmp_path / "a").write_text("tea\n")
    env = environment(1)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    stream = env.from_source(builder.monitor_continuously(Duration.of_millis(100)).build(), NO_WATERMARKS, "folder")
    results: Any = stream.key_by(lambda v: v).process(Alarm()).execute_and_collect()
    with results:
        assert next(results) == ("set", "tea")
        assert next(results) == ("rings", "tea", "PROCESSING_TIME")


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.split(",")[0])


class Closes(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


def test_an_idle_source_does_not_hold_the_watermark_back(tmp_path: Path) -> None:
    for name in ("busy", "idle"):
        (tmp_path / name).mkdir()
    (tmp_path / "busy" / "a").write_text("100,x\n")
    (tmp_path / "idle" / "a").write_text("1,x\n")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    env = environment(1)

    def folder(name: str) -> Any:
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / name))
        source = builder.monitor_continuously(Duration.of_millis(100)).build()
        return env.from_source(source, strategy.with_idleness(Duration.of_millis(1500)), name)

    results: Any = (
        folder("busy").union(folder("idle")).key_by(lambda v: v.split(",")[1]).process(Closes()).execute_and_collect()
    )
    with results:
        time.sleep(0.5)
        (tmp_path / "busy" / "b").write_text("200,x\n")
        time.sleep(0.5)
        (tmp_path / "busy" / "c").write_text("300,x\n")
        # Once "idle" is idle, only "busy" counts: 110 and 210 are over, 310 is not.
        assert [next(results), next(results), next(results)] == [11, 110, 210]


def test_batch_mode_reads_what_is_there_and_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\nb\na\n")
    env = environment(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    stream = env.from_source(builder.monitor_continuously(Duration.of_millis(100)).build(), NO_WATERMARKS, "folder")
    pairs = stream.map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    assert sorted(collect(pairs.key_by(lambda p: p[0]).sum(1))) == [("a", 2), ("b", 1)]


@pytest.mark.spark
def test_functions_of_an_element_and_a_state() -> None:
    readings = [("s1", 20.0), ("s1", 21.0), ("s2", 5.0), ("s1", 30.0), ("s2", 5.5), ("s2", 1.0)]

    def alerts(reading: Any, last: Any) -> Any:
        if last is None or abs(reading[1] - last) <= 1.7:
            return [], reading[1]
        return [(reading[0], last, reading[1])], reading[1]

    def keyed() -> Any:
        return environment(2).from_collection(readings).key_by(lambda r: r[0])

    assert sorted(collect(keyed().flat_map_with_state(alerts))) == [("s1", 21.0, 30.0), ("s2", 5.5, 1.0)]
    counted = keyed().map_with_state(lambda r, n: ((r[0], (n or 0) + 1), (n or 0) + 1), state_type=Types.INT())
    assert sorted(collect(counted)) == [("s1", 1), ("s1", 2), ("s1", 3), ("s2", 1), ("s2", 2), ("s2", 3)]
    firsts = keyed().filter_with_state(lambda r, seen: (seen is None, True))
    assert sorted(collect(firsts)) == [("s1", 20.0), ("s2", 5.0)]


def test_a_slow_stream_moves_its_watermark_without_waiting_for_more_records(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("100,x\n200,x\n")
    env = environment(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    stream = env.from_source(builder.monitor_continuously(Duration.of_millis(100)).build(), strategy, "folder")
    results: Any = stream.key_by(lambda v: v.split(",")[1]).process(Closes()).execute_and_collect()
    with results:
        assert next(results) == 110
