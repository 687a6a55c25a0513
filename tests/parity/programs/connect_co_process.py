"""connect with CoProcessFunction and KeyedCoProcessFunction: shared state, timers, side output."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import CoProcessFunction, KeyedCoProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

UNMATCHED = OutputTag("unmatched", Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Label(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "first", value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield "second", value, ctx.timestamp()


class Match(KeyedCoProcessFunction):
    """Joins orders and payments of one key; what has no partner at the end of time goes to the side output."""

    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.LONG()))
        self.payments = runtime_context.get_list_state(ListStateDescriptor("payments", Types.LONG()))

    def process_element1(self, value, ctx):
        self.order.update(value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def process_element2(self, value, ctx):
        self.payments.add(value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        order = self.order.value()
        payments = sorted(self.payments.get() or [])
        if order is None or not payments:
            yield UNMATCHED, f"{ctx.get_current_key()} order={order} payments={payments}"
        else:
            yield f"{ctx.get_current_key()} order={order} payments={payments} at {timestamp} {ctx.time_domain().name}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    orders = env.from_collection([("a", 100), ("b", 200), ("c", 300)], type_info=pair)
    payments = env.from_collection([("a", 150), ("a", 175), ("c", 350), ("d", 400)], type_info=pair)
    orders = orders.assign_timestamps_and_watermarks(strategy)
    payments = payments.assign_timestamps_and_watermarks(strategy)

    orders.connect(payments).process(Label()).print("co-process")
    matched = orders.connect(payments).key_by(lambda v: v[0], lambda v: v[0]).process(Match(), Types.STRING())
    matched.print("matched")
    matched.get_side_output(UNMATCHED).print("unmatched")
    env.execute("connected process functions")
