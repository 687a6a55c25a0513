"""ProcessFunction and KeyedProcessFunction: none, one or many outputs, a missing timestamp, the current key."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, ProcessFunction


class Divisors(ProcessFunction):
    def process_element(self, value, ctx):
        for i in range(2, value):
            if value % i == 0:
                yield value, i


class NoTimestamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()}"


class ReturnsAList(ProcessFunction):
    def process_element(self, value, ctx):
        return [value, -value]


class ReturnsNothing(ProcessFunction):
    def process_element(self, value, ctx):
        return None


class KeyAndValue(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield Row(ctx.get_current_key(), value)
        if ctx.get_current_key() == 0:
            yield Row(-1, value)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_collection([3, 4, 6, 12, 7], type_info=Types.INT())
    numbers.process(Divisors(), Types.TUPLE([Types.INT(), Types.INT()])).print("divisors")
    numbers.process(NoTimestamp()).print("timestamp")
    numbers.process(ReturnsAList(), output_type=Types.INT()).print("list")
    numbers.process(ReturnsNothing()).print("nothing")
    keyed = numbers.key_by(lambda n: n % 3).process(KeyAndValue(), Types.ROW([Types.INT(), Types.INT()]))
    keyed.print()
    # The output of a keyed function may be keyed anew.
    keyed.key_by(lambda r: r[1] % 2).sum(0).map(lambda r: r[1] % 2).print("again")
    env.execute("process functions")
