"""Names imported from where PyFlink only happens to have them, and watermarks that are turned off."""

from collections.abc import Iterable

from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream.connectors import NumberSequenceSource
from pyflink.datastream.data_stream import KeyedStream, WindowedStream
from pyflink.datastream.functions import IN, KEY, OUT, ProcessWindowFunction, W
from pyflink.datastream.output_tag import Types
from pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment, WatermarkStrategy
from pyflink.datastream.window import Time, TumblingEventTimeWindows


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class Listed(ProcessWindowFunction[IN, OUT, KEY, W]):
    def process(self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        yield f"{key} from {context.window().start // 1000}: {sorted(elements)}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_source(NumberSequenceSource(1, 5), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda v: v * 2, Types.LONG()).print("doubled")

    # Without watermarks event time passes at the end alone, so nothing is late.
    env.get_config().set_auto_watermark_interval(0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    timed = env.from_collection([1, 20, 3, 400, 25, 7], Types.LONG()).assign_timestamps_and_watermarks(strategy)
    keyed = timed.key_by(lambda v: v % 2, Types.LONG())
    windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    print(isinstance(keyed, KeyedStream), isinstance(windowed, WindowedStream))
    windowed.process(Listed(), Types.STRING()).print("windows")
    env.execute("names from elsewhere")
