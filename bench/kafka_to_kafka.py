"""Keyed sums from Kafka to Kafka, exactly once, with a checkpoint per second; the broker is on the same cores.

    python bench/kafka_to_kafka.py --records 2000000
    python bench/kafka_to_kafka.py --spark .venv-spark/bin/python --spark-jars FOLDER
    python bench/kafka_to_kafka.py --pyflink .venv-pyflink/bin/python --jar flink-sql-connector-kafka-5.0.0-2.2.jar

Beadline runs bench/pyflink_kafka_to_kafka.py, and so does PyFlink, with fewer records. Spark's own readStream and
writeStream do the same, at least once. Their interpreter has PySpark, pandas and pyarrow, and may have another version
of Spark, because connectors come out later; the folder has the jars of spark-sql-kafka-0-10 of that version and what
they depend on. Every result is counted by a read_committed consumer. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from beadline.services import KafkaServer

HERE = Path(__file__).parent
KEYS = 10_000
PARTITIONS = 4


def make_topic(servers: str, name: str) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


def fill(servers: str, topic: str, records: int) -> str:
    """Lines of ``key,value``."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        line = f"key-{number % KEYS},{number % 1000}".encode()
        while True:
            try:
                producer.produce(topic, line)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return topic


def count(servers: str, topic: str) -> int:
    """How many records a read_committed consumer sees."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": f"count-{topic}", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found, ends = 0, set()
    while len(ends) < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                found += 1
            else:
                ends.add(message.partition())
    consumer.close()
    return found


def seconds(command: list[str], **environment: str) -> float:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    answer: float = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    return answer


class Bench:
    """Topics of one size for one contender after another."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.small = fill(servers, make_topic(servers, "small"), 20_000)
        self.sources: dict[int, str] = {}
        self.report: dict[str, Any] = {}

    def source(self, records: int) -> str:
        if records not in self.sources:
            self.sources[records] = fill(self.servers, make_topic(self.servers, f"numbers-{records}"), records)
        return self.sources[records]

    def run(self, name: str, records: int, command: list[str], more: list[str], **environment: str) -> float:
        source, target = self.source(records), make_topic(self.servers, f"{name}-{time.time_ns()}")
        warm = make_topic(self.servers, f"{name}-warm-{time.time_ns()}")
        arguments = [self.servers, source, target, "--warm-up", self.small, warm, *more]
        rate = records / seconds([*command, *arguments], **environment)
        found = count(self.servers, target)
        if found != records:
            sys.exit(f"{name}: {found} results of {records} records")
        self.report[name] = round(rate)
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--local", action="store_true", help="also with the local engine")
    parser.add_argument("--spark", metavar="PYTHON", help="also with Spark's own streams: the interpreter that has it")
    parser.add_argument("--spark-jars", metavar="FOLDER", help="Spark's Kafka connector and what it depends on")
    parser.add_argument("--pyflink", metavar="PYTHON", help="the interpreter that has PyFlink")
    parser.add_argument("--jar", help="PyFlink's Kafka connector: flink-sql-connector-kafka from Maven Central")
    parser.add_argument("--pyflink-records", type=int, default=200_000)
    arguments = parser.parse_args()
    program = str(HERE / "pyflink_kafka_to_kafka.py")
    ours = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink"]
    with KafkaServer() as broker:
        bench = Bench(broker.bootstrap_servers)
        rate = bench.run("beadline", arguments.records, [*ours, program], [])
        print(f"  Beadline, exactly once       {rate:>10,.0f} records/s", flush=True)
        if arguments.local:
            local = bench.run("local", arguments.records, [*ours, "--engine", "local", program], [])
            print(f"  the same, local engine       {local:>10,.0f} records/s", flush=True)
        if arguments.spark:
            command = [arguments.spark, str(HERE / "spark_kafka_to_kafka.py")]
            spark = bench.run("spark", arguments.records, command, ["--jars", arguments.spark_jars])
            print(f"  Spark's own, at least once   {spark:>10,.0f} records/s   Beadline {rate / spark:.1f} times")
        if arguments.pyflink:
            path = f"{Path(arguments.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
            more = ["--jar", arguments.jar] if arguments.jar else []
            theirs = bench.run("pyflink", arguments.pyflink_records, [arguments.pyflink, program], more, PATH=path)
            print(f"  PyFlink, exactly once        {theirs:>10,.0f} records/s   Beadline {rate / theirs:.1f} times")
        print(json.dumps({"records": arguments.records, **bench.report}), flush=True)


if __name__ == "__main__":
    main()
