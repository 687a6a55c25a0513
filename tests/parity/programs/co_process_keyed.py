"""A CoProcessFunction on keyed connected streams has state by key."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import CoProcessFunction
from pyflink.datastream.state import ValueStateDescriptor


class Together(CoProcessFunction):
    """Adds up both sides of a key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element1(self, value, ctx):
        return self.add("left", value)

    def process_element2(self, value, ctx):
        return self.add("right", value)

    def add(self, side, value):
        total = (self.total.value() or 0) + 1
        self.total.update(total)
        yield f"{value[0]}: {total} elements"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    left = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    right = env.from_collection([("a", 10), ("c", 20)])
    connected = left.connect(right).key_by(lambda value: value[0], lambda value: value[0])
    connected.process(Together(), Types.STRING()).print("together")
    env.execute("co process on keyed streams")


if __name__ == "__main__":
    main()
