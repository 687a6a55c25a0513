"""Session, count and global windows, with triggers of their own."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import WindowFunction
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
)


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 3 if element[0] == "a" else 8


class Bounds(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window.start, window.end, sorted(i[1] for i in inputs))]


class Values(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, sorted(i[1] for i in inputs))]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)  # count windows depend on the order of records, which PyFlink keeps in one subtask only
    records = [("a", 1), ("b", 3), ("a", 9), ("a", 4), ("b", 12), ("a", 6), ("c", 25), ("a", 21), ("b", 29), ("b", 30)]
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(Second())
    stream = env.from_collection(records, type_info=pair).assign_timestamps_and_watermarks(strategy)
    keyed = stream.key_by(lambda r: r[0], key_type=Types.STRING())
    keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(4))).apply(Bounds()).print("session")
    keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).apply(Bounds()).print("dynamic")
    keyed.count_window(2).apply(Values()).print("count")
    keyed.count_window(3, 1).apply(Values()).print("count-sliding")
    keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).apply(Values()).print("global")
    keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).trigger(CountTrigger.of(2)).apply(Values()).print(
        "count-trigger"
    )
    env.execute("sessions and counts")
