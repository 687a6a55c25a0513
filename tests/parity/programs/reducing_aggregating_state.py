"""ReducingState and AggregatingState: add, get, clear, of functions and classes, and with time to live."""

from pyflink.common import Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor, StateTtlConfig


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if len(value1) >= len(value2) else value2


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Distinct(AggregateFunction):
    """Its accumulator is an object of no declared type."""

    def create_accumulator(self):
        return set()

    def add(self, value, accumulator):
        return accumulator | {value}

    def get_result(self, accumulator):
        return sorted(accumulator)

    def merge(self, a, b):
        return a | b


class Summarise(KeyedProcessFunction):
    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
        total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        total.enable_time_to_live(ttl)
        mean = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.INT()]))
        mean.enable_time_to_live(ttl)
        self.total = runtime_context.get_reducing_state(total)
        self.longest = runtime_context.get_reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
        self.mean = runtime_context.get_aggregating_state(mean)
        self.distinct = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("distinct", Distinct(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        key, word, number = value
        if word == "clear":
            for state in (self.total, self.longest, self.mean, self.distinct):
                state.clear()
            yield key, "cleared", self.total.get(), self.longest.get()
            return
        self.total.add(number)
        self.longest.add(word)
        self.mean.add(number)
        self.distinct.add(word)
        yield key, self.total.get(), self.longest.get(), self.mean.get(), self.distinct.get()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    values = [
        ("a", "oak", 4),
        ("b", "ash", 10),
        ("a", "maple", 6),
        ("a", "larch", 1),
        ("b", "clear", 0),
        ("a", "oak", 9),
        ("b", "fir", 2),
        ("a", "clear", 0),
        ("b", "spruce", 3),
        ("a", "yew", 8),
    ]
    env.from_collection(values).key_by(lambda v: v[0]).process(Summarise()).print()
    env.execute("reducing and aggregating state")
