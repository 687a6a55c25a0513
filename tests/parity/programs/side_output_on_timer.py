"""Side output from on_timer, next to main output from on_timer."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction

EVEN_SECOND = OutputTag("even-second", Types.TUPLE([Types.STRING(), Types.LONG()]))
NOTES = OutputTag("notes")


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class OneSecondLater(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield NOTES, ("seen", value)

    def on_timer(self, timestamp, ctx):
        if timestamp // 1000 % 2 == 0:
            yield EVEN_SECOND, (ctx.get_current_key(), timestamp)
        else:
            yield ctx.get_current_key(), timestamp
        yield NOTES, ("fired", ctx.get_current_key(), timestamp)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    events = env.from_collection([("a", 0), ("a", 1000), ("b", 1500), ("b", 3000), ("c", 3001)], type_info=pair)
    events = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    )
    fired = events.key_by(lambda e: e[0]).process(OneSecondLater(), output_type=pair)
    fired.print("main")
    fired.get_side_output(EVEN_SECOND).print("even-second")
    fired.get_side_output(NOTES).print("notes")
    env.execute("side output of timers")
