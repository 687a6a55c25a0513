"""Event-time timers of several keys: all fire by the end of input, each once, with their own timestamp."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, TimeDomain
from pyflink.datastream.functions import KeyedProcessFunction, ProcessFunction
from pyflink.datastream.state import ListStateDescriptor


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Reminders(KeyedProcessFunction):
    """Sets one timer per element, and one chain of timers that each set the next."""

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_event_time_timer(ctx.timestamp() + 500)
        if value[2] == "chain":
            service.register_event_time_timer(1_000_000)

    def on_timer(self, timestamp, ctx):
        event_time = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield f"{ctx.get_current_key()} {timestamp} {event_time} {ctx.timestamp()}"
        if 1_000_000 <= timestamp < 1_000_003:
            ctx.timer_service().register_event_time_timer(timestamp + 1)


class SortByTime(KeyedProcessFunction):
    """Collects all elements of a key and emits them in order of time when the stream ends."""

    def open(self, runtime_context):
        self.kept = runtime_context.get_list_state(
            ListStateDescriptor("kept", Types.TUPLE([Types.LONG(), Types.STRING()]))
        )

    def process_element(self, value, ctx):
        self.kept.add((value[0], value[2]))
        ctx.timer_service().register_event_time_timer(9_000_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), [note for _, note in sorted(self.kept.get())]
        self.kept.clear()


class WithTimestamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} carries {ctx.timestamp()}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    events = env.from_collection(
        [
            (1000, "k1", "one"),
            (3000, "k2", "two"),
            (2000, "k1", "three"),
            (2500, "k3", "chain"),
            (1500, "k2", "four"),
            (4000, "k1", "five"),
            (3500, "k3", "six"),
        ],
        type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()]),
    )
    timed = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(FirstField())
    )
    reminders = timed.key_by(lambda e: e[1], key_type=Types.STRING()).process(Reminders(), Types.STRING())
    reminders.print("reminder")
    # What a timer emits carries the timer's timestamp.
    reminders.process(WithTimestamp()).print("timestamp")
    timed.key_by(lambda e: e[1]).process(SortByTime()).print("sorted")
    env.execute("event-time timers")
