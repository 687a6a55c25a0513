"""Clicks per page and second, and the clicks of each page since the beginning.

The playground runs this program with ``beadline run``. Nothing in it knows of failures.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from beadline.cli.playground.generator import ClickGenerator
from beadline.cli.playground.journal import Journal
from beadline.common import Encoder, Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.connectors import Sink
from beadline.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from beadline.datastream.functions import AggregateFunction, ProcessWindowFunction
from beadline.datastream.state import ValueStateDescriptor
from beadline.datastream.window import TumblingEventTimeWindows

JOB = "click count"
CLICK = Types.TUPLE([Types.STRING(), Types.LONG()])


class ClickTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class LineTime(TimestampAssigner):
    """The time of a click that comes as a line: ``/shop,1234``."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.partition(",")[2])


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class NameWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: str, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        yield context.window().start, key, next(iter(elements))


class AddUp(KeyedProcessFunction):
    """Adds the total of the page to each count."""

    total_type = Types.ROW_NAMED(["clicks"], [Types.LONG()])

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", self.total_type))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        window, page, clicks = value
        before = self.total.value()
        total = clicks + (before.clicks if before else 0)
        self.total.update(Row(clicks=total))
        yield window, page, clicks, total


def main(adding_up: AddUp, then: Callable[[DataStream], DataStream] = lambda counts: counts) -> None:
    """Run the job. The other version of the program adds up in another way, and has one more operator after that."""
    options = read_options()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    env.add_event_listener(Journal(options.journal))

    clicks = from_kafka(env, options.kafka) if options.kafka else from_generator(env, options.started)
    windows = clicks.key_by(lambda click: click[0], Types.STRING()).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    counts = (
        windows.aggregate(
            Count(),
            window_function=NameWindow(),
            accumulator_type=Types.LONG(),
            output_type=Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()]),
        )
        .uid("per window")
        .name("clicks per page and second")
    )
    totals = counts.key_by(lambda count: count[1], Types.STRING()).process(adding_up).uid("totals").name("totals")
    lines = then(totals).map(lambda row: ",".join(map(str, row)), Types.STRING()).name("as text")
    lines.sink_to(to_kafka(options.kafka) if options.kafka else to_files(options.output)).uid("output")
    env.execute(JOB)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--started", type=int, help="when the generator made its first click, in ms since 1970")
    parser.add_argument("--output", help="folder for the results")
    parser.add_argument("--kafka", help="read clicks and write results there instead")
    parser.add_argument("--journal", required=True, help="file that the job's events are written to")
    return parser.parse_args()


def from_generator(env: StreamExecutionEnvironment, started: int) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ClickTime())
    return env.from_source(ClickGenerator(started), strategy, "clicks", CLICK).uid("clicks")


def to_files(folder: str) -> FileSink:
    return (
        FileSink.for_row_format(folder, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def from_kafka(env: StreamExecutionEnvironment, address: str) -> DataStream:
    from beadline.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics("clicks")
        .set_group_id("playground")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LineTime())
    lines = env.from_source(source, strategy, "clicks").uid("clicks")
    return lines.map(lambda line: (line.split(",")[0], int(line.split(",")[1])), CLICK)


def to_kafka(address: str) -> Sink:
    from beadline.datastream.connectors.kafka import DeliveryGuarantee, KafkaRecordSerializationSchema, KafkaSink

    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("counts")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(address)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("playground")
        .build()
    )


if __name__ == "__main__":
    main(AddUp())
