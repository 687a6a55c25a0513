"""Spark's own way from Kafka to Kafka, which is at-least-once: the same sums, with state in Python.

    python bench/spark_kafka_to_kafka.py SERVERS SOURCE TARGET --jars FOLDER

The folder has the jars of spark-sql-kafka-0-10, of the same version as PySpark, and what they depend on. The last
line is JSON: seconds of the query, from start() to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout


def running_sum(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    total = state.get[0] if state.exists else 0
    for frame in frames:
        totals = frame["number"].cumsum() + total
        total = int(totals.iloc[-1])
        yield pd.DataFrame({"value": key[0] + "," + totals.astype(str)})
    state.update((total,))


def run(session: SparkSession, servers: str, source: str, target: str) -> float:
    lines = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    parts = F.split(lines["value"].cast("string"), ",")
    parsed = lines.select(parts[0].alias("key"), parts[1].cast("long").alias("number"))
    sums: Any = parsed.groupBy("key").applyInPandasWithState(
        running_sum, "value string", "total long", "append", GroupStateTimeout.NoTimeout
    )
    started = time.perf_counter()
    query = (
        sums.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", tempfile.mkdtemp(prefix="kafka-to-kafka-"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--warm-up", nargs=2, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--jars", required=True)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(sorted(map(str, Path(arguments.jars).glob("*.jar")))))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    if arguments.warm_up:
        run(session, arguments.servers, *arguments.warm_up)
    seconds = run(session, arguments.servers, arguments.source, arguments.target)
    print(json.dumps({"seconds": round(seconds, 3)}), flush=True)


if __name__ == "__main__":
    main()
