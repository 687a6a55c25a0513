"""connect with CoMapFunction and CoFlatMapFunction, plain and keyed."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import CoFlatMapFunction, CoMapFunction
from pyflink.datastream.state import ValueStateDescriptor


class Describe(CoMapFunction):
    def map1(self, value):
        return f"number {value + 1}"

    def map2(self, value):
        return f"word {value.upper()}"


class Spread(CoFlatMapFunction):
    def flat_map1(self, value):
        for i in range(value):
            yield f"{value}.{i}"

    def flat_map2(self, value):
        if value != "skip":
            yield value


class PerKeySum(CoMapFunction):
    """The two inputs share one total for each key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def _add(self, n):
        total = (self.total.value() or 0) + n
        self.total.update(total)
        return total

    def map1(self, value):
        return value[0], self._add(value[1])

    def map2(self, value):
        return value[0], self._add(value[1])


class Once(CoFlatMapFunction):
    """Each key comes out once, whichever input brings it."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def _first(self, value):
        if not self.seen.value():
            self.seen.update(True)
            yield value[0]

    def flat_map1(self, value):
        yield from self._first(value)

    def flat_map2(self, value):
        yield from self._first(value)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
    words = env.from_collection(["red", "skip", "blue"], type_info=Types.STRING())
    numbers.connect(words).map(Describe(), output_type=Types.STRING()).print("co-map")
    numbers.connect(words).map(Describe()).map(len).print("co-map-chained")
    numbers.connect(words).flat_map(Spread(), output_type=Types.STRING()).print("co-flat-map")

    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    left = env.from_collection([("a", 1), ("b", 2), ("c", 4)], type_info=pair)
    right = env.from_collection([("d", 8), ("e", 16)], type_info=pair)
    keyed = left.connect(right).key_by(lambda v: v[0], lambda v: v[0])
    keyed.map(PerKeySum(), output_type=pair).print("keyed-co-map")

    again = env.from_collection([("a", 9), ("c", 9), ("f", 9)], type_info=pair)
    left.connect(again).key_by(lambda v: v[0], lambda v: v[0], key_type=Types.STRING()).flat_map(Once()).print("once")
    left.key_by(lambda v: v[0]).connect(again.key_by(lambda v: v[0])).flat_map(Once()).print("once-keyed-inputs")
    env.execute("connected streams")
