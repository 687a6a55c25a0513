"""ValueState of several types: absent, updated, cleared, separate per key and per name, and with time to live."""

from pyflink.common import Row, Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor


class Several(KeyedProcessFunction):
    """Keeps the last value in states of different types."""

    def open(self, runtime_context):
        get = runtime_context.get_state
        self.count = get(ValueStateDescriptor("count", Types.INT()))
        self.last = get(ValueStateDescriptor("last", Types.TUPLE([Types.STRING(), Types.DOUBLE()])))
        self.row = get(ValueStateDescriptor("row", Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.DOUBLE()])))
        self.anything = get(ValueStateDescriptor("anything", Types.PICKLED_BYTE_ARRAY()))
        self.names = get(ValueStateDescriptor("names", Types.LIST(Types.STRING())))

    def process_element(self, value, ctx):
        before = (
            self.count.value(),
            self.last.value(),
            self.row.value(),
            self.anything.value(),
            self.names.value(),
        )
        yield f"{value[0]}: {before}"
        self.count.update((before[0] or 0) + 1)
        self.last.update(value)
        self.row.update(Row(k=value[0], v=value[1]))
        self.anything.update({"seen": value[1], "keys": {1, 2}})
        self.names.update((before[4] or []) + [value[0]])


class ClearEveryThird(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        if count == 3:
            self.count.clear()
            yield value[0], count, self.count.value()
        else:
            self.count.update(count)
            yield value[0], count, self.count.value()


class NotYetExpired(KeyedProcessFunction):
    def open(self, runtime_context):
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .never_return_expired()
            .build()
        )
        on_read = (
            StateTtlConfig.new_builder(Time.days(1))
            .update_ttl_on_read_and_write()
            .return_expired_if_not_cleaned_up()
            .cleanup_full_snapshot()
            .build()
        )
        written = ValueStateDescriptor("written", Types.DOUBLE())
        written.enable_time_to_live(ttl)
        read = ValueStateDescriptor("read", Types.STRING())
        read.enable_time_to_live(on_read)
        self.written = runtime_context.get_state(written)
        self.read = runtime_context.get_state(read)

    def process_element(self, value, ctx):
        yield value[0], self.written.value(), self.read.value()
        self.written.update((self.written.value() or 0.0) + value[1])
        self.read.update((self.read.value() or "") + value[0])


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    values = [("a", 0.5), ("b", 1.0), ("a", 1.5), ("a", 2.0), ("b", 2.5), ("a", 3.0), ("c", 3.5), ("a", 4.0)]
    keyed = env.from_collection(values, type_info=Types.TUPLE([Types.STRING(), Types.DOUBLE()])).key_by(lambda v: v[0])
    keyed.process(Several()).print("several")
    keyed.process(ClearEveryThird()).print("clear")
    keyed.process(NotYetExpired()).print("ttl")
    env.execute("value state")
