"""In BATCH mode reduce and the aggregations give one final value for each key."""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    """A function of one's own still emits for every element."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(2)
    values = [("a", 3), ("b", 8), ("a", 1), ("c", 5), ("a", 7), ("b", 9)]
    pairs = env.from_collection(values, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed = pairs.key_by(lambda p: p[0])
    keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).print("reduce")
    keyed.sum(1).print("sum")
    keyed.min(1).print("min")
    keyed.max_by(1).print("max_by")
    keyed.process(Count()).print("count")
    pairs.map(lambda p: p[1] * 2).print("map")
    env.execute("batch")
