"""Keys that can't be hashed (lists, dicts, sets, byte arrays), and None as a key of declared types."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, ProcessWindowFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import CountTumblingWindowAssigner


class Count(KeyedProcessFunction):
    """Counts the elements of a key, and tells the count again at the end."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.put(value[0], count)
        ctx.timer_service().register_event_time_timer(100)
        yield f"{ctx.get_current_key()!r} has {value[0]} as number {count}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()!r} had {self.count.value()}: {sorted(self.seen.items())}"


class Gather(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key!r} gathered {sorted(element[0] for element in elements)}"


KEYS = {
    "list": [[1, 2], [3], [1, 2], [], [[1], 2]],
    "nested": [(1, [2]), (1, [3]), (1, [2])],
    "dict": [{"a": 1}, {"b": [2]}, {"a": 1}],
    "set": [{1}, {2}, {1}],
    "frozenset": [frozenset({1}), frozenset(), frozenset({1})],
    "bytearray": [bytearray(b"x"), bytearray(b"y"), bytearray(b"x")],
    "none": [None, 1, None],
}
DECLARED = {
    "string": Types.STRING(),
    "int": Types.INT(),
    "double": Types.DOUBLE(),
    "tuple": Types.TUPLE([Types.INT(), Types.STRING()]),
    "row": Types.ROW([Types.INT()]),
}


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    for name, keys in KEYS.items():
        elements = env.from_collection(list(enumerate(keys)))
        elements.key_by(lambda value: value[1]).process(Count(), Types.STRING()).print(name)
    lists = env.from_collection(list(enumerate([[1], [2], [1]]))).key_by(lambda value: value[1])
    lists.window(CountTumblingWindowAssigner.of(2)).process(Gather(), Types.STRING()).print("window")
    typed = env.from_collection(list(enumerate([[1, 2], [3], [1, 2]])))
    typed = typed.key_by(lambda value: value[1], Types.LIST(Types.INT()))
    typed.process(Count(), Types.STRING()).print("typed-list")
    for name, key_type in DECLARED.items():
        nones = env.from_collection([(1,), (2,)]).key_by(lambda value: None, key_type)
        nones.process(Count(), Types.STRING()).print(f"none-{name}")
    env.execute("container keys")


if __name__ == "__main__":
    main()
