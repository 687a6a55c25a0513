"""What programs of PyFlink 1.x say, and what reaches into a JVM that is not there. No Spark is started."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Duration, Encoder, Row, SimpleStringSchema, Types, WatermarkStrategy
from beadline.common.serialization import SimpleStringEncoder
from beadline.connectors.files import BulkFileSink, RowFileSink
from beadline.datastream import DataStream, StreamExecutionEnvironment, TimeCharacteristic
from beadline.datastream.connectors import FileSink, OutputFileConfig, RollingPolicy, Sink, StreamingFileSink
from beadline.datastream.connectors.base import StreamTransformer, SupportsPreprocessing
from beadline.datastream.formats.parquet import ParquetBulkWriters
from beadline.errors import GraphError, TypeMismatchError, UnsupportedFeatureError
from beadline.graph.specs import SinkSpec, TimestampsSpec
from beadline.table import DataTypes


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


class TestTimeCharacteristic:
    STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(
        Duration.of_seconds(5)
    )

    def kind_in(self, env: StreamExecutionEnvironment) -> str:
        stream = env.from_collection([1]).assign_timestamps_and_watermarks(self.STRATEGY)
        spec = stream._edges[0].source.spec
        assert isinstance(spec, TimestampsSpec)
        assert (spec.strategy.idle_timeout_ms is None) == (spec.strategy.kind == "none")
        return spec.strategy.kind

    def test_is_event_time_unless_told(self, env: StreamExecutionEnvironment) -> None:
        assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
        assert self.kind_in(env) == "bounded"

    def test_processing_time_makes_no_watermarks(self, env: StreamExecutionEnvironment) -> None:
        env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
        assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
        assert env.get_config().get_auto_watermark_interval() == 0
        assert self.kind_in(env) == "none"
        env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
        assert self.kind_in(env) == "bounded"
        assert self.STRATEGY.kind == "bounded"

    def test_an_interval_of_zero_does_the_same(self, env: StreamExecutionEnvironment) -> None:
        env.get_config().set_auto_watermark_interval(0)
        assert self.kind_in(env) == "none"

    def test_ingestion_time_is_refused(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(UnsupportedFeatureError, match=r"TimeCharacteristic\.IngestionTime is not supported"):
            env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
        with pytest.raises(TypeMismatchError, match="takes a TimeCharacteristic: 'EventTime'"):
            env.set_stream_time_characteristic("EventTime")  # type: ignore[arg-type]


class TestStreamingFileSink:
    def test_is_a_file_sink_for_add_sink(self, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
        sink = (
            StreamingFileSink.for_row_format(str(tmp_path), SimpleStringEncoder())
            .with_bucket_check_interval(1000)
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .with_output_file_config(
                OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
            )
            .build()
        )
        env.from_collection(["a"], Types.STRING()).add_sink(sink).name("files")
        spec = env._pending[-1].spec
        assert isinstance(spec, SinkSpec)
        assert isinstance(spec.sink, RowFileSink)
        assert (spec.sink.prefix, spec.sink.suffix) == ("pre", ".txt")
        assert "exactly-once" in spec.sink.guarantee()

    def test_writes_bulk_formats_too(self, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
        row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
        writers = ParquetBulkWriters.for_row_type(row_type)
        sink = StreamingFileSink.for_bulk_format(str(tmp_path), writers).build()
        env.from_collection([Row(1)], row_type.type_info()).add_sink(sink)
        spec = env._pending[-1].spec
        assert isinstance(spec, SinkSpec)
        assert isinstance(spec.sink, BulkFileSink)
        assert spec.sink.policy.on_checkpoint

    def test_other_sink_functions_are_still_refused(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(UnsupportedFeatureError, match=r"add_sink\(\) can't write to object"):
            env.from_collection([1]).add_sink(object())

    def test_its_encoder(self) -> None:
        assert isinstance(SimpleStringEncoder(), Encoder)
        assert SimpleStringEncoder("latin-1").encode("é") == b"\xe9\n"


class Lines(Sink, SupportsPreprocessing, StreamTransformer):
    """A sink that wants texts and makes them itself."""

    def __init__(self, folder: Path) -> None:
        self._sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build()

    def get_transformer(self) -> StreamTransformer:
        return self

    def apply(self, ds: DataStream) -> DataStream:
        return ds.map(str, Types.STRING()).name("to text")

    def _make_sink(self, type_info: Any) -> Any:
        assert type_info == Types.STRING()
        return self._sink._make_sink(type_info)


def test_a_sink_may_prepare_its_stream(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.from_sequence(1, 3).sink_to(Lines(tmp_path))
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["type"] for node in nodes if "to text" in str(node)] != []


class TestJavaObjects:
    @pytest.mark.parametrize(
        ("owner", "name"),
        [
            (StreamExecutionEnvironment(), "_j_stream_execution_environment"),
            (StreamExecutionEnvironment().from_collection([1]), "_j_data_stream"),
            (StreamExecutionEnvironment().from_collection([1]).key_by(lambda v: v), "_j_data_stream"),
            (Configuration(), "_j_configuration"),
            (Types.INT(), "_j_typeinfo"),
            (WatermarkStrategy.no_watermarks(), "_j_watermark_strategy"),
            (SimpleStringSchema(), "_j_serialization_schema"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )
    def test_are_refused_by_name(self, owner: Any, name: str) -> None:
        with pytest.raises(UnsupportedFeatureError) as caught:
            getattr(owner, name)
        assert str(caught.value).startswith(f"{type(owner).__name__}.{name} is an object of Flink's JVM, and Beadline")
        assert str(caught.value).count(". ") == 0, "one sentence"
        assert not hasattr(owner, name)

    def test_other_attributes_are_missing_as_ever(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(AttributeError, match="'StreamExecutionEnvironment' object has no attribute 'nonsense'"):
            env.nonsense  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError) as caught:
            Configuration().nonsense  # type: ignore[attr-defined]  # noqa: B018
        assert not isinstance(caught.value, UnsupportedFeatureError)

    def test_objects_are_copied_and_pickled_as_ever(self) -> None:
        assert pickle.loads(pickle.dumps(Types.INT())) == copy.deepcopy(Types.INT()) == Types.INT()
        assert copy.copy(WatermarkStrategy.for_monotonous_timestamps()).kind == "monotonous"


class TestSettings:
    @pytest.fixture(autouse=True)
    def default(self) -> Iterator[None]:
        yield
        StreamExecutionEnvironment._default_local_parallelism = None

    def test_the_default_local_parallelism_is_for_environments_to_come(self, env: StreamExecutionEnvironment) -> None:
        before = env.get_parallelism()
        env.set_default_local_parallelism(before + 5)
        assert env.get_default_local_parallelism() == before + 5
        assert env.get_parallelism() == before
        later = StreamExecutionEnvironment.get_execution_environment()
        assert later.get_parallelism() == later.get_default_local_parallelism() == before + 5
        assert later.set_parallelism(2).get_parallelism() == 2
        with pytest.raises(GraphError, match="positive int, got 0"):
            env.set_default_local_parallelism(0)

    def test_nobody_has_said_whether_there_is_a_changelog(self, env: StreamExecutionEnvironment) -> None:
        assert env.is_changelog_state_backend_enabled() is None
        assert env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False
        assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled() is True
