"""Keyed sums from Kafka to Kafka, exactly once, as a PyFlink program, which Beadline runs as well.

    beadline run --pyflink bench/pyflink_kafka_to_kafka.py SERVERS SOURCE TARGET

Reads lines of ``key,value`` from a topic, keeps a sum for each key in a ValueState and writes ``key,sum`` for each
record, with a checkpoint per second. The last line is JSON: seconds of the whole job, from execute() to its end.

Under PyFlink the ``python`` first on the PATH has to be the one that runs this file, and --jar must name the connector.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        total = (self.state.value() or 0) + value[1]
        self.state.update(total)
        yield f"{value[0]},{total}"


def parse(line):
    key, value = line.split(",")
    return key, int(value)


def build(env, servers, source, target):
    records = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(source)
        .set_group_id(f"{target}-readers")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(target)
        .set_property("transaction.timeout.ms", "600000")
        .set_record_serializer(serializer)
        .build()
    )
    lines = env.from_source(records, WatermarkStrategy.no_watermarks(), "records")
    parsed = lines.map(parse, output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
    sums = parsed.key_by(lambda record: record[0], key_type=Types.STRING())
    sums.process(RunningSum(), output_type=Types.STRING()).sink_to(sink)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--warm-up", nargs=2, metavar=("SOURCE", "TARGET"), help="smaller topics to begin with")
    parser.add_argument("--jar", help="PyFlink's Kafka connector")
    arguments = parser.parse_args()

    config = Configuration()
    config.set_string("execution.checkpointing.interval", "1 s")
    config.set_string("execution.checkpointing.dir", "file://" + tempfile.mkdtemp(prefix="kafka-to-kafka-"))
    config.set_string("python.execution-mode", "thread")
    if arguments.jar:
        config.set_string("pipeline.jars", "file://" + os.path.abspath(arguments.jar))
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(arguments.parallelism)
    if arguments.warm_up:
        build(env, arguments.servers, *arguments.warm_up)
        env.execute("warm-up")
    build(env, arguments.servers, arguments.source, arguments.target)
    started = time.perf_counter()
    env.execute("kafka to kafka")
    print(json.dumps({"seconds": round(time.perf_counter() - started, 3)}), flush=True)


if __name__ == "__main__":
    main()
