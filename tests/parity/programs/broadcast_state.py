"""Broadcast state: rules beside events, with a key and without, in lines that no order of arrival changes."""

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

PRICES = MapStateDescriptor("prices", Types.STRING(), Types.LONG())
SHAPES = MapStateDescriptor("shapes", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
UNKNOWN = OutputTag("unknown", Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Keep(BroadcastProcessFunction):
    """Tells after each rule what the state holds; events only say what they can't do."""

    def process_broadcast_element(self, value, ctx):
        prices = ctx.get_broadcast_state(PRICES)
        before = prices.get(value[0])
        if value[1] < 0:
            prices.remove(value[0])
        else:
            prices.put(value[0], value[1])
        yield f"{value} before={before} after={sorted(prices.items())} in={value[0] in prices} {ctx.timestamp()}"
        if value[0] == "end":
            keys, values = sorted(prices.keys()), sorted(prices.values())
            prices.put("x", 1)
            prices.put("y", 2)
            del prices["x"]
            prices["z"] = 3
            yield f"{keys} {values} {sorted(prices)} {prices['y']} {prices['none']} empty={prices.is_empty()}"
            prices.clear()
            yield f"cleared: {sorted(prices.items())} empty={prices.is_empty()}"

    def process_element(self, value, ctx):
        writable = [name for name in ("put", "put_all", "remove") if name in dir(type(ctx))]
        yield f"{value} {type(value).__name__} {writable} {ctx.timestamp()}"


class Bill(KeyedBroadcastProcessFunction):
    """Adds up amounts by key; when all time is over it multiplies them by the price and looks at the other state."""

    def open(self, runtime_context):
        self.amount = runtime_context.get_state(ValueStateDescriptor("amount", Types.LONG()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(PRICES).put(value[0], value[1])
        shapes = ctx.get_broadcast_state(SHAPES)
        names = shapes.get(value[1] % 2) or []
        names.append(value[0])
        shapes.put(value[1] % 2, names)

    def process_element(self, value, ctx):
        self.amount.update((self.amount.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(1_000_000)
        yield f"{ctx.get_current_key()} {value[2]} at {ctx.timestamp()}"

    def on_timer(self, timestamp, ctx):
        price = ctx.get_broadcast_state(PRICES).get(ctx.get_current_key())
        shapes = {key: sorted(names) for key, names in sorted(ctx.get_broadcast_state(SHAPES).items())}
        if price is None:
            yield UNKNOWN, f"{ctx.get_current_key()} has no price"
        else:
            amount, domain = self.amount.value(), ctx.time_domain().name
            yield f"{ctx.get_current_key()} {amount}*{price}={amount * price} {shapes} {timestamp} {domain}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    prices = env.from_collection([("a", 3), ("b", 4), ("a", 5), ("b", -1), ("end", 7)], type_info=pair)
    numbers = env.from_collection([1, 2, 3], type_info=Types.LONG())
    numbers.connect(prices.broadcast(PRICES)).process(Keep()).print("keep")

    sales = env.from_collection(
        [Row("a", 10, 1), Row("b", 20, 2), Row("a", 30, 3), Row("c", 40, 4)],
        type_info=Types.ROW([Types.STRING(), Types.LONG(), Types.LONG()]),
    ).assign_timestamps_and_watermarks(strategy)
    prices = env.from_collection([("a", 3), ("b", 4), ("d", 6)], type_info=pair)
    bills = (
        sales.key_by(lambda sale: sale[0], key_type=Types.STRING())
        .connect(prices.broadcast(PRICES, SHAPES))
        .process(Bill(), Types.STRING())
        .set_parallelism(2)
    )
    bills.print("bill")
    bills.get_side_output(UNKNOWN).print("unknown")
    env.execute()
