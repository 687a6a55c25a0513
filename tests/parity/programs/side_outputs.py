"""Side outputs of several tags and types, from plain and keyed process functions, and of an unused tag."""

from pyflink.common import Row, Types
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, ProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

ODD = OutputTag("odd", Types.INT())
LARGE = OutputTag("large", Types.TUPLE([Types.STRING(), Types.INT()]))
ROWS = OutputTag("rows", [Types.INT(), Types.STRING()])
ANYTHING = OutputTag("anything")
NEVER = OutputTag("never", Types.STRING())
REPEATED = OutputTag("repeated", Types.STRING())


class Sort(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        if value >= 5:
            yield LARGE, ("large", value)
        if value == 3:
            yield ROWS, Row(value, "three")
            yield ANYTHING, {"value": value}
        yield value * 100


class Repeats(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count > 1:
            yield REPEATED, f"{value} number {count}"
        else:
            yield value


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_collection([1, 2, 3, 4, 5, 6], type_info=Types.INT())
    main = numbers.process(Sort(), output_type=Types.INT())
    main.print("main")
    main.get_side_output(ODD).print("odd")
    main.get_side_output(ODD).map(lambda v: -v, output_type=Types.INT()).print("odd-again")
    main.get_side_output(LARGE).print("large")
    main.get_side_output(ROWS).print("rows")
    main.get_side_output(ANYTHING).print("anything")
    main.get_side_output(NEVER).print("never")

    words = env.from_collection(["x", "y", "x", "x", "z", "y"], type_info=Types.STRING())
    first = words.key_by(lambda w: w).process(Repeats(), Types.STRING())
    first.print("first")
    first.get_side_output(REPEATED).print("repeated")
    env.execute("side outputs")
