"""How fast a job reads Kafka, next to a bare loop over ``consume()`` of confluent-kafka on the same topic.

    python bench/kafka_source.py
    python bench/kafka_source.py --records 4000000 --parallelism 2

It starts a broker, fills a topic, and lets both take turns, each in a process of its own. The loop counts the messages
and takes their values; the job turns values into strings and counts them in a function. Both begin with a warm-up
over a part of the topic. The last line is JSON: both rates (medians) and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TOPIC = "events"


def fill(servers: str, records: int, partitions: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20})
    for number in range(records):
        value = f"key-{number % 100_000},{number},{'x' * 80}".encode()
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        sys.exit("the topic could not be filled")


def bare_loop(servers: str, records: int) -> float:
    """Seconds for all records, after a warm-up."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bare", "enable.auto.commit": False})
    partitions = consumer.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions

    def count(wanted: int) -> None:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in partitions])
        found = 0
        while found < wanted:
            for message in consumer.consume(5000, 1.0):
                if message.error() is None and message.value() is not None:
                    found += 1
        consumer.unassign()

    count(records // 10)
    started = time.perf_counter()
    count(records)
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def job(servers: str, records: int, parallelism: int) -> float:
    """Seconds of the job, from execute() to its end, after a warm-up that reads a tenth of the topic."""
    from beadline.common import SimpleStringSchema, WatermarkStrategy
    from beadline.datastream import StreamExecutionEnvironment
    from beadline.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaTopicPartition
    from beadline.datastream.functions import FlatMapFunction

    class Count(FlatMapFunction):
        def open(self, runtime_context):
            self.counter = runtime_context.get_metrics_group().counter("records")

        def flat_map(self, value):
            self.counter.inc()
            return ()

    def read(stop: KafkaOffsetsInitializer) -> tuple[int, float]:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        found = []
        env.add_step_listener(lambda report: found.append(report.records))
        made = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(TOPIC).set_bounded(stop)
        source = made.set_value_only_deserializer(SimpleStringSchema()).build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").flat_map(Count()).print()
        started = time.perf_counter()
        env.execute()
        return sum(found), time.perf_counter() - started

    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    partitions = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
    part = records // 10 // len(partitions)
    read(KafkaOffsetsInitializer.offsets({KafkaTopicPartition(TOPIC, number): part for number in partitions}))
    count, seconds = read(KafkaOffsetsInitializer.latest())
    if count != records:
        sys.exit(f"the job counted {count} of {records} records")
    return seconds


def measured(what: str, servers: str, arguments: argparse.Namespace) -> int:
    """Records per second of one turn, in a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--servers", servers, "--records", str(arguments.records)]
    command += ["--parallelism", str(arguments.parallelism)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return round(arguments.records / float(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--servers", help="a broker with the topic; one is started if left out")
    parser.add_argument("--only", choices=["bare", "job"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only == "bare":
        print(bare_loop(arguments.servers, arguments.records))
        return
    if arguments.only == "job":
        print(job(arguments.servers, arguments.records, arguments.parallelism))
        return
    from beadline.services import KafkaServer

    with KafkaServer() as server:
        fill(server.address, arguments.records, arguments.partitions)
        bare, ours = [], []
        for _ in range(arguments.turns):
            bare.append(measured("bare", server.address, arguments))
            ours.append(measured("job", server.address, arguments))
    rates = round(statistics.median(bare)), round(statistics.median(ours))
    shape = f"{arguments.records:,} records, {arguments.partitions} partitions, parallelism {arguments.parallelism}"
    print(f"Kafka source, {shape}: {ours} beside {bare}")
    print(json.dumps({"bare": rates[0], "beadline": rates[1], "ratio": round(rates[1] / rates[0], 2)}))


if __name__ == "__main__":
    main()
