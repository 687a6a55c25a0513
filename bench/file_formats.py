"""How fast the formats of files are read: the same records as lines that the program parses, as CSV, Avro and Parquet.

    python bench/file_formats.py --records 2000000

The job counts the records whose value is negative: none. ``lines`` is the text source alone, with records that nobody
has parsed. The last line is JSON: records per second of each, and how many times the parsed lines Parquet is.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beadline.common import Configuration, Row, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSource, StreamFormat
from beadline.datastream.formats.avro import AvroReaderFormat, AvroSchema
from beadline.datastream.formats.csv import CsvReaderFormat, CsvSchema
from beadline.datastream.formats.parquet import ParquetColumnarRowInputFormat
from beadline.table import DataTypes

ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("key", DataTypes.STRING()),
        DataTypes.FIELD("value", DataTypes.BIGINT()),
        DataTypes.FIELD("price", DataTypes.DOUBLE()),
    ]
)
FIELDS = [{"name": "key", "type": "string"}, {"name": "value", "type": "long"}, {"name": "price", "type": "double"}]
AVRO = json.dumps({"type": "record", "name": "Sale", "fields": FIELDS})


def write(folder: Path, records: int) -> None:
    import fastavro

    dice = random.Random(1)
    rows = [{"key": f"key-{dice.randrange(1000)}", "value": n, "price": n / 4} for n in range(records)]
    (folder / "sales.csv").write_text("".join(f"{row['key']},{row['value']},{row['price']}\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), folder / "sales.parquet", row_group_size=200_000)
    with open(folder / "sales.avro", "wb") as stream:
        fastavro.writer(stream, json.loads(AVRO), rows)


def parse(line: str) -> Row:
    key, value, price = line.split(",")
    return Row(key=key, value=int(value), price=float(price))


def source_of(kind: str, folder: Path) -> Any:
    if kind == "parquet":
        return FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW_TYPE), str(folder / "sales.parquet"))
    if kind == "avro":
        made: Any = AvroReaderFormat.for_generic_record(AvroSchema.parse_string(AVRO))
        return FileSource.for_record_stream_format(made, str(folder / "sales.avro"))
    if kind == "csv":
        schema = CsvSchema.builder().add_string_column("key").add_number_column("value")
        made = CsvReaderFormat.for_schema(schema.add_number_column("price", DataTypes.DOUBLE()).build())
    else:
        made = StreamFormat.text_line_format()
    return FileSource.for_record_stream_format(made, str(folder / "sales.csv"))


def run(kind: str, folder: Path, records: int, engine: str) -> float:
    """Records per second."""
    config = Configuration()
    config.set_string("beadline.engine", engine)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    stream = env.from_source(source_of(kind, folder).build(), WatermarkStrategy.no_watermarks(), kind)
    if kind == "lines, parsed":
        stream = stream.map(parse, ROW_TYPE.type_info())
    if kind == "lines":
        stream.filter(lambda line: line[0] == "-").print()
    else:
        stream.filter(lambda record: record["value"] < 0).print()
    started = time.perf_counter()
    env.execute()
    return records / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--engine", default="spark", choices=["spark", "local"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, arguments.records)
        run("lines", folder, arguments.records, arguments.engine)  # starts Spark and its workers
        rates = {}
        for kind in ("lines", "lines, parsed", "csv", "avro", "parquet"):
            rates[kind] = round(run(kind, folder, arguments.records, arguments.engine))
            print(f"{kind}: {rates[kind]:,} records/s", flush=True)
    print(json.dumps({**rates, "parquet_to_parsed_lines": round(rates["parquet"] / rates["lines, parsed"], 2)}))


if __name__ == "__main__":
    main()
