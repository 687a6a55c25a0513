"""Whole jobs that read and write files of each format."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from beadline.common import Duration, Encoder, Row, Types, WatermarkStrategy
from beadline.datastream import OutputTag
from beadline.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from beadline.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroReaderFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from beadline.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from beadline.datastream.formats.json import JsonRowDeserializationSchema
from beadline.datastream.formats.orc import OrcBulkWriters
from beadline.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from beadline.errors import JobExecutionError, TypeMismatchError, UnsupportedFeatureError
from beadline.table import DataTypes
from tests.datastream.jobs import collect, environment, restarting

pytestmark = pytest.mark.usefixtures("engine")

COUNT = 500
ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.BIGINT()),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2)),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
    ]
)
AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "name", "type": ["null", "string"]},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "tags", "type": {"type": "array", "items": "string"}},
            ],
        }
    )
)
CSV = (
    CsvSchema.builder()
    .add_number_column("id")
    .add_string_column("name")
    .add_number_column("price", DataTypes.DECIMAL(10, 2))
    .add_array_column("tags", "#")
    .set_column_separator("|")
    .set_null_value("null")
    .set_use_header()
    .build()
)
START = dt.datetime(2020, 1, 1)


def order(number: int) -> Row:
    return Row(
        id=number,
        name=None if number % 5 == 0 else f'n "{number}" | \n',
        price=Decimal(number) / 4,
        at=START + dt.timedelta(milliseconds=number),
        tags=[str(tag) for tag in range(number % 3 + 1)],
    )


def without_time(number: int) -> Row:
    values = order(number)
    return Row(id=values.id, name=values.name, price=values.price, tags=values.tags)


def generic(number: int) -> dict[str, Any]:
    values = order(number)
    at = values.at.replace(tzinfo=dt.timezone.utc)
    return {"id": values.id, "name": values.name, "at": at, "tags": values.tags}


def write(folder: Path, make: Any, type_info: Any, factory: Any) -> list[Path]:
    env = environment(step_records=100)
    stream = env.from_sequence(0, COUNT - 1).map(make, type_info)
    sink = FileSink.for_bulk_format(str(folder), factory)
    stream.sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    env.execute()
    return sorted(path for path in folder.iterdir() if path.is_file())


def read(source_format: Any, folder: Path) -> tuple[list[Any], Any]:
    env = environment(step_records=70)
    if isinstance(source_format, StreamFormat):
        builder = FileSource.for_record_stream_format(source_format, str(folder))
    else:
        builder = FileSource.for_bulk_file_format(source_format, str(folder))
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "files")
    return sorted(collect(stream), key=lambda record: record["id"]), stream.get_type()


class TestParquet:
    @pytest.mark.parametrize("engine_name", ["here", pytest.param("spark", marks=pytest.mark.spark)])
    def test_rows_are_written_and_read(self, tmp_path: Path, engine_name: str) -> None:
        files = write(tmp_path, order, ROW_TYPE.type_info(), ParquetBulkWriters.for_row_type(ROW_TYPE))
        assert sum(pq.read_metadata(path).num_rows for path in files) == COUNT
        found, kind = read(ParquetColumnarRowInputFormat(ROW_TYPE), tmp_path)
        assert found == [order(number) for number in range(COUNT)]
        assert kind == ROW_TYPE.type_info()

    def test_records_of_avro_are_written_and_read(self, tmp_path: Path) -> None:
        write(tmp_path, generic, GenericRecordAvroTypeInfo(AVRO), AvroParquetWriters.for_generic_record(AVRO))
        found, kind = read(AvroParquetReaders.for_generic_record(AVRO), tmp_path)
        assert found == [generic(number) for number in range(COUNT)]
        assert kind == GenericRecordAvroTypeInfo(AVRO)

    def test_settings(self, tmp_path: Path) -> None:
        from beadline.common import Configuration

        config = Configuration.from_dict({"parquet.compression": "GZIP", "parquet.enable.dictionary": "false"})
        factory = ParquetBulkWriters.for_row_type(ROW_TYPE, config)
        (path, *_) = write(tmp_path, order, ROW_TYPE.type_info(), factory)
        column = pq.read_metadata(path).row_group(0).column(1)
        assert (column.compression, column.has_dictionary_page) == ("GZIP", False)
        with pytest.raises(UnsupportedFeatureError, match=r"\['parquet.bloom.filter'\] are not supported; it knows"):
            ParquetBulkWriters.for_row_type(ROW_TYPE, Configuration.from_dict({"parquet.bloom.filter": "x"}))
        with pytest.raises(UnsupportedFeatureError, match="it takes none"):
            ParquetColumnarRowInputFormat(ROW_TYPE, config)


def test_orc_files_are_written(tmp_path: Path) -> None:
    from beadline.common import Configuration

    config = Configuration.from_dict({"orc.compress": "SNAPPY"})
    files = write(tmp_path, order, ROW_TYPE.type_info(), OrcBulkWriters.for_row_type(ROW_TYPE, config))
    rows = [row for path in files for row in orc.read_table(path).to_pylist()]
    wanted = [order(number).as_dict() for number in range(COUNT)]
    assert sorted(rows, key=lambda row: row["id"]) == wanted
    assert orc.ORCFile(files[0]).compression == "SNAPPY"
    with pytest.raises(UnsupportedFeatureError, match="writer properties"):
        OrcBulkWriters.for_row_type(ROW_TYPE, Configuration.from_dict({"orc.nonsense": "x"}))


class TestAvro:
    def test_records_are_written_and_read(self, tmp_path: Path) -> None:
        info = GenericRecordAvroTypeInfo(AVRO)
        files = write(tmp_path, generic, info, AvroBulkWriters.for_generic_record(AVRO))
        with open(files[0], "rb") as stream:
            assert next(iter(fastavro.reader(stream)))["tags"] is not None
        found, kind = read(AvroReaderFormat.for_generic_record(AVRO), tmp_path)
        assert found == [generic(number) for number in range(COUNT)]
        assert kind == info

    def test_input_formats(self, tmp_path: Path) -> None:
        write(tmp_path, generic, GenericRecordAvroTypeInfo(AVRO), AvroBulkWriters.for_generic_record(AVRO))
        env = environment(step_records=70)
        stream = env.create_input(AvroInputFormat(str(tmp_path), AVRO))
        assert stream.get_type() == GenericRecordAvroTypeInfo(AVRO)
        found = collect(stream.map(lambda record: record["id"], Types.LONG()))
        assert sorted(found) == list(range(COUNT))
        with pytest.raises(UnsupportedFeatureError, match=r"create_input\(\) takes an AvroInputFormat"):
            env.create_input(object())


class TestCsv:
    def test_rows_are_written_and_read(self, tmp_path: Path) -> None:
        files = write(tmp_path, without_time, CSV.get_type_info(), CsvBulkWriters.for_schema(CSV))
        assert {path.read_text().splitlines()[0] for path in files} == {'"id"|"name"|"price"|"tags"'}
        found, kind = read(CsvReaderFormat.for_schema(CSV), tmp_path)
        assert found == [without_time(number) for number in range(COUNT)]
        assert kind == CSV.get_type_info()

    def test_lines_are_as_pyflink_writes_them(self) -> None:
        numbers = [
            DataTypes.TINYINT(),
            DataTypes.SMALLINT(),
            DataTypes.INT(),
            DataTypes.BIGINT(),
            DataTypes.FLOAT(),
            DataTypes.DOUBLE(),
            DataTypes.DECIMAL(2, 0),
        ]
        builder = CsvSchema.builder()
        for kind in numbers:
            builder.add_number_column(type(kind).__name__, kind)
        plain = builder.add_boolean_column("boolean").add_string_column("string").build()
        row = Row(127, -32767, 2147483647, -(2**63), 3e38, 2e-308, Decimal("1.5"), True, "string")
        line = "127,-32767,2147483647,-9223372036854775808,3.0E38,2.0E-308,2,true,string\n"
        assert self.written(plain, row) == line
        two = CsvSchema.builder().add_string_column("a").add_string_column("b")
        assert self.written(two.set_escape_char("\\").build(), Row("string,", '"b"')) == '"string,","""b"""\n'
        assert self.written(two.set_column_separator("|").set_quote_char("`").build(), Row("x", "y")) == "`x`|`y`\n"

    def written(self, schema: CsvSchema, row: Row) -> str:
        piece = CsvBulkWriters.for_schema(schema)._encoding.piece()
        piece.write([row])
        return b"".join(piece.finish()).decode()

    def bad_file(self, folder: Path) -> None:
        lines = [f"{number},{'x' if number == 7 else number * 2}" for number in range(20)]
        (folder / "in.csv").write_text("\n".join(lines))

    def stream(self, folder: Path, **options: Any) -> Any:
        self.bad_file(folder)
        schema = CsvSchema.builder().add_number_column("id").add_number_column("value").build()
        env = restarting(5, 1, execution__checkpointing__interval="100 ms", **options)
        source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(folder)).build()
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "csv")

    def test_a_bad_row_fails_the_job(self, tmp_path: Path) -> None:
        with pytest.raises(JobExecutionError, match="can't read '7,x' as CSV"):
            collect(self.stream(tmp_path))

    @pytest.mark.parametrize("tries", [1, 2])
    def test_a_bad_row_is_skipped_if_that_is_said(self, tmp_path: Path, tries: int) -> None:
        options = {"beadline__poison__action": "skip", "beadline__poison__tries": tries}
        found = collect(self.stream(tmp_path, **options))
        assert [row.id for row in found] == [number for number in range(20) if number != 7]

    def test_a_bad_row_goes_to_the_side_output_if_that_is_said(self, tmp_path: Path) -> None:
        options = {"beadline__poison__action": "side-output", "beadline__poison__tries": 1}
        stream = self.stream(tmp_path, **options)
        bad = stream.get_side_output(OutputTag("beadline-poison", Types.PICKLED_BYTE_ARRAY()))
        assert collect(bad) == [b"7,x"]


class TestLines:
    SCHEMA = JsonRowDeserializationSchema.builder().type_info(
        Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    )

    def source(self, folder: Path, schema: Any) -> Any:
        lines = [json.dumps({"id": number, "name": f"n{number}"}) for number in range(100)]
        lines[40] = "{no json"
        (folder / "a.jsonl").write_text("\r\n".join(lines))
        return FileSource.for_record_stream_format(StreamFormat.decoded_line_format(schema), str(folder)).build()

    def test_json_is_read_line_by_line(self, tmp_path: Path) -> None:
        poison = {"beadline__poison__action": "skip", "beadline__poison__tries": 1}
        env = restarting(3, step_records=30, execution__checkpointing__interval="100 ms", **poison)
        source = self.source(tmp_path, self.SCHEMA.build())
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "json")
        found = sorted(collect(stream), key=lambda row: row.id)
        assert found == [Row(id=n, name=f"n{n}") for n in range(100) if n != 40]

    def test_a_bad_line_is_named(self, tmp_path: Path) -> None:
        source = self.source(tmp_path, self.SCHEMA.build())
        stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "json")
        with pytest.raises(JobExecutionError, match=r"Can't read '\{no json' as JSON"):
            collect(stream)

    def test_errors_are_ignored_if_the_schema_says_so(self, tmp_path: Path) -> None:
        lenient = JsonRowDeserializationSchema.builder().type_info(self.SCHEMA._type_info).ignore_parse_errors()
        source = self.source(tmp_path, lenient.build())
        stream = environment(step_records=30).from_source(source, WatermarkStrategy.no_watermarks(), "json")
        assert len(collect(stream)) == 99


def test_new_files_of_a_monitored_folder_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, order, ROW_TYPE.type_info(), ParquetBulkWriters.for_row_type(ROW_TYPE))
    env = environment()
    builder = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW_TYPE), str(folder))
    source = builder.monitor_continuously(Duration.of_millis(50)).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    seen = 0
    with stream.execute_and_collect() as results:
        for _ in results:
            seen += 1
            if seen == COUNT:  # another batch of files comes
                write(tmp_path / "more", order, ROW_TYPE.type_info(), ParquetBulkWriters.for_row_type(ROW_TYPE))
                for path in (tmp_path / "more").iterdir():
                    if path.is_file():
                        path.rename(folder / f"more-{path.name}")
            if seen == 2 * COUNT:
                break
    assert seen == 2 * COUNT


def test_small_files_become_one(tmp_path: Path) -> None:
    env = environment(step_records=50, execution__checkpointing__interval="10 ms")
    strategy = FileCompactStrategy.builder().set_size_threshold(1 << 20).build()
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    sink.enable_compact(strategy, FileCompactor.concat_file_compactor())
    env.from_sequence(0, COUNT - 1).map(str, Types.STRING()).sink_to(sink.build())
    env.execute()
    (only,) = [path for path in tmp_path.iterdir() if path.is_file()]
    assert only.name.startswith("compacted-part-")
    assert sorted(map(int, only.read_text().split())) == list(range(COUNT))


class TestWhatCannotWork:
    def test_is_refused_when_it_is_declared(self, tmp_path: Path) -> None:
        bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW_TYPE))
        with pytest.raises(UnsupportedFeatureError, match="complete with each checkpoint"):
            bulk.with_rolling_policy(RollingPolicy.default_rolling_policy())
        bulk.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        with pytest.raises(TypeMismatchError, match="takes a BulkWriterFactory"):
            FileSink.for_bulk_format(str(tmp_path), Encoder.simple_string_encoder())  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="takes a BulkFormat"):
            FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "x")  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="takes a StreamFormat"):
            FileSource.for_record_stream_format(ParquetColumnarRowInputFormat(ROW_TYPE), "x")  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="takes a RowType"):
            ParquetBulkWriters.for_row_type(DataTypes.INT())  # type: ignore[arg-type]
        with pytest.raises(UnsupportedFeatureError, match="ORC has no form for TimeType"):
            OrcBulkWriters.for_row_type(DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIME())]))
        with pytest.raises(UnsupportedFeatureError, match="set_any_property_name"):
            CsvSchema.builder().set_any_property_name("rest")

    def test_a_record_that_does_not_fit_its_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(JobExecutionError, match="does not fit the columns"):
            write(
                tmp_path,
                lambda number: Row(id="seven") if number == 7 else order(number),
                Types.PICKLED_BYTE_ARRAY(),
                ParquetBulkWriters.for_row_type(ROW_TYPE),
            )
