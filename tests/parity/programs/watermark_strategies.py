"""Every watermark strategy, with and without a timestamp assigner, seen through ctx.timestamp() and the watermark."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, ProcessFunction

LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class LaterThanBefore(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 1_000_000


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[1], ctx.timestamp()


class Watermarks(KeyedProcessFunction):
    """The watermark while elements come and when the timer fires, where both are certain."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield value[1], "element", ctx.timer_service().current_watermark() == LONG_MIN

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), "timer", timestamp, ctx.timer_service().current_watermark() == LONG_MAX


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    events = env.from_collection(
        [(100, "a"), (300, "b"), (200, "c"), (-5, "d")], type_info=Types.TUPLE([Types.LONG(), Types.STRING()])
    )
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50))
    monotonous = WatermarkStrategy.for_monotonous_timestamps()

    events.process(Stamp()).print("untouched")
    for name, strategy in (("bounded", bounded), ("monotonous", monotonous)):
        timed = events.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(FirstField()))
        timed.process(Stamp()).print(name)
    none = events.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
    none.process(Stamp()).print("none")
    stamped = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(FirstField())
    )
    stamped.process(Stamp()).print("none-with-assigner")
    stamped.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
        .with_idleness(Duration.of_minutes(1))
        .with_timestamp_assigner(LaterThanBefore())
    ).process(Stamp()).print("assigned-twice")
    # Timestamps stay with the elements through map, filter, flat_map and key_by.
    doubled = stamped.map(lambda v: (v[0], v[1] * 2)).filter(lambda v: v[1] != "bb").flat_map(lambda v: [v, v])
    doubled.rebalance().process(Stamp()).print("carried")
    stamped.key_by(lambda v: v[1]).process(Watermarks()).print("watermark")
    env.execute("watermark strategies")
