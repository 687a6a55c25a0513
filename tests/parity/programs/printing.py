"""print() in user functions goes to standard output, whole lines and parts of lines."""

import sys

from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction


class Loud(MapFunction):
    def open(self, runtime_context):
        print("opened")

    def map(self, value):
        print("part", end=" ")
        print("of", value)
        sys.stdout.write(f"written {value}\n")
        return value


class LoudCount(KeyedProcessFunction):
    def process_element(self, value, ctx):
        print("keyed", ctx.get_current_key(), value)
        ctx.timer_service().register_event_time_timer(10)
        yield value

    def on_timer(self, timestamp, ctx):
        print("timer of", ctx.get_current_key())
        return []


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3]).map(Loud(), Types.INT())
    numbers.key_by(lambda value: value % 2).process(LoudCount(), Types.INT()).print("result")
    env.execute("printing")


if __name__ == "__main__":
    main()
