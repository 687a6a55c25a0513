"""ListState: add, add_all, update, get, iteration, clear, and with time to live."""

from pyflink.common import Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, StateTtlConfig


class Edit(KeyedProcessFunction):
    """Commands are (key, what, numbers)."""

    def open(self, runtime_context):
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))
        lasting = ListStateDescriptor("lasting", Types.STRING())
        lasting.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(2)).build())
        self.lasting = runtime_context.get_list_state(lasting)
        self.pairs = runtime_context.get_list_state(
            ListStateDescriptor("pairs", Types.TUPLE([Types.STRING(), Types.INT()]))
        )

    def process_element(self, value, ctx):
        key, what, numbers = value
        self.lasting.add(what)
        if what == "add":
            for n in numbers:
                self.numbers.add(n)
                self.pairs.add((what, n))
        elif what == "add_all":
            self.numbers.add_all(numbers)
        elif what == "update":
            self.numbers.update(numbers)
        elif what == "clear":
            self.numbers.clear()
            self.pairs.clear()
        elif what == "double":
            self.numbers.update([n * 2 for n in self.numbers.get()])
        yield key, what, list(self.numbers.get()), list(self.lasting), len(list(self.pairs)), sum(self.numbers)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    commands = [
        ("a", "add", [1, 2]),
        ("b", "look", []),
        ("a", "add_all", [3, 4]),
        ("b", "add_all", [9]),
        ("a", "double", []),
        ("b", "update", [7, 8]),
        ("a", "clear", []),
        ("b", "add", [6]),
        ("a", "look", []),
        ("a", "add", [5]),
        ("b", "update", []),
        ("b", "add", [1]),
    ]
    env.from_collection(commands).key_by(lambda c: c[0]).process(Edit()).print()
    env.execute("list state")
