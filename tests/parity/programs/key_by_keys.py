"""key_by with every kind of selector, and with keys of many types."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, KeySelector
from pyflink.datastream.state import ValueStateDescriptor


class ByColour(KeySelector):
    def get_key(self, value):
        return value[0]


class CountWithKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        key = ctx.get_current_key()
        yield f"{type(key).__name__} {key!r} {count}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    beads = env.from_collection(
        [("red", 1, 0.5), ("blue", 2, 0.5), ("red", 1, 1.5), ("green", 2, -2.0), ("red", 3, 0.5), ("blue", 2, 1.5)],
        type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]),
    )

    beads.key_by(lambda b: b[0]).process(CountWithKey()).print("str")
    beads.key_by(ByColour(), key_type=Types.STRING()).process(CountWithKey()).print("selector")
    beads.key_by(lambda b: b[1]).process(CountWithKey()).print("int")
    beads.key_by(lambda b: b[1], key_type=Types.LONG()).process(CountWithKey()).print("long-typed")
    beads.key_by(lambda b: b[2], key_type=Types.DOUBLE()).process(CountWithKey()).print("double-typed")
    beads.key_by(lambda b: b[1] > 1).process(CountWithKey()).print("bool")
    beads.key_by(lambda b: (b[0], b[1])).process(CountWithKey()).print("tuple")
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    beads.key_by(lambda b: (b[0], b[1]), key_type=pair).process(CountWithKey()).print("tuple-typed")
    row = Types.ROW([Types.STRING(), Types.INT()])
    beads.key_by(lambda b: Row(b[0], b[1]), key_type=row).process(CountWithKey()).print("row-typed")
    beads.key_by(lambda b: Row(colour=b[0], size=b[1])).process(CountWithKey()).print("row")
    beads.key_by(lambda b: None).process(CountWithKey()).print("none")
    beads.key_by(lambda b: b[0] if b[1] > 1 else None).process(CountWithKey()).print("sometimes-none")
    # A second key_by replaces the first.
    beads.key_by(lambda b: b[0]).key_by(lambda b: b[1]).process(CountWithKey()).print("twice")
    env.execute("keys")
