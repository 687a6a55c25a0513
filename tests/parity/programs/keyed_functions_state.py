"""State used inside map, flat_map, filter and reduce of a keyed stream."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FilterFunction, FlatMapFunction, MapFunction, ReduceFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor


class RunningTotal(MapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def map(self, value):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        return value[0], total


class Pairs(FlatMapFunction):
    """Emits a pair for every second element of a key."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def flat_map(self, value):
        waiting = list(self.waiting.get())
        if waiting:
            self.waiting.clear()
            yield value[0], waiting[0], value[1]
        else:
            self.waiting.add(value[1])


class FirstSeen(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class Largest(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1[1] >= value2[1] else value2


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    type_info = Types.TUPLE([Types.STRING(), Types.INT()])
    values = [("a", 3), ("b", 10), ("a", 5), ("c", 7), ("a", 1), ("b", 2), ("b", 30), ("b", 4)]
    keyed = env.from_collection(values, type_info=type_info).key_by(lambda v: v[0], key_type=Types.STRING())

    keyed.map(RunningTotal(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()])).print("map")
    keyed.flat_map(Pairs()).print("flat_map")
    keyed.filter(FirstSeen()).print("filter")
    keyed.reduce(Largest()).print("reduce")
    keyed.map(lambda v: v[1] * 2, output_type=Types.INT()).print("map-lambda")
    keyed.filter(lambda v: v[1] > 4).print("filter-lambda")
    keyed.reduce(lambda a, b: (a[0], a[1] * b[1])).print("reduce-lambda")
    keyed.print()
    env.execute("state in keyed functions")
