"""Tumbling and sliding windows of event time, with offsets; a window function alone and on top of a fold."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows, TimeWindow, TumblingEventTimeWindows


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Bounds(WindowFunction):
    def apply(self, key, window: TimeWindow, inputs):
        return [(key, window.start, window.end, len(list(inputs)))]


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        state = context.global_state().get_state(ValueStateDescriptor("windows", Types.INT()))
        state.update((state.value() or 0) + 1)
        yield key, context.window().start, context.window().end, sorted(e[1] for e in elements)

    def clear(self, context):
        pass


class Put(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield f"{key} {context.window().start} {element}"


class Everything(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, len(list(elements))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    records = [("a", 1), ("b", 3), ("a", 4), ("a", 11), ("b", 12), ("a", 13), ("c", 25), ("a", 21), ("b", 29)]
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(Second())
    stream = env.from_collection(records, type_info=pair).assign_timestamps_and_watermarks(strategy)
    keyed = stream.key_by(lambda r: r[0], key_type=Types.STRING())
    tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
    keyed.window(tumbling).reduce(lambda a, b: (a[0], a[1] + b[1]), output_type=pair).print("reduce")
    keyed.window(tumbling).aggregate(Average(), output_type=Types.DOUBLE()).print("aggregate")
    keyed.window(tumbling).apply(Bounds()).print("apply")
    keyed.window(tumbling).process(Show()).print("process")
    keyed.window(tumbling).aggregate(Average(), window_function=Put(), output_type=Types.STRING()).print("on-top")
    keyed.window(tumbling).reduce(
        lambda a, b: (a[0], a[1] + b[1]), window_function=Put(), output_type=Types.STRING()
    ).print("reduce-on-top")
    offset = TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3))
    keyed.window(offset).apply(Bounds()).print("offset")
    sliding = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    keyed.window(sliding).apply(Bounds()).print("sliding")
    stream.window_all(tumbling).process(Everything()).print("all")
    env.execute("windows of time")
