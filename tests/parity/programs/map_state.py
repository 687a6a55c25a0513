"""MapState: put, get, remove, contains, items, keys, values, is_empty, clear and the dict operators."""

from pyflink.common import Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import MapStateDescriptor, StateTtlConfig


class Edit(KeyedProcessFunction):
    """Commands are (key, what, map key, value)."""

    def open(self, runtime_context):
        self.stock = runtime_context.get_map_state(MapStateDescriptor("stock", Types.STRING(), Types.INT()))
        lasting = MapStateDescriptor("lasting", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        lasting.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).cleanup_incrementally(3, True).build())
        self.lasting = runtime_context.get_map_state(lasting)

    def process_element(self, value, ctx):
        key, what, item, amount = value
        stock = self.stock
        answer = None
        if what == "put":
            stock.put(item, amount)
        elif what == "set":
            stock[item] = amount
        elif what == "get":
            answer = stock.get(item)
        elif what == "index":
            answer = stock[item]
        elif what == "remove":
            stock.remove(item)
        elif what == "del":
            del stock[item]
        elif what == "contains":
            answer = (stock.contains(item), item in stock)
        elif what == "grow":
            for name in sorted(stock.keys()):
                stock.put(name, stock.get(name) + 100)
        elif what == "clear":
            stock.clear()
        self.lasting.put(what, (item, amount))
        yield (
            key,
            what,
            answer,
            sorted(stock.items()),
            sorted(stock.keys()),
            sorted(stock.values()),
            sorted(stock),
            stock.is_empty(),
        )
        if what == "clear":
            yield key, "lasting", sorted(self.lasting.items())


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    commands = [
        ("a", "look", "x", 0),
        ("a", "put", "x", 1),
        ("b", "set", "y", 5),
        ("a", "put", "z", 3),
        ("a", "set", "zz", 6),
        ("a", "get", "x", 0),
        ("a", "get", "missing", 0),
        ("b", "index", "y", 0),
        ("a", "contains", "zz", 0),
        ("a", "contains", "nothing", 0),
        ("a", "remove", "x", 0),
        ("a", "contains", "x", 0),
        ("b", "put", "y", 6),
        ("b", "del", "y", 0),
        ("b", "contains", "y", 0),
        ("a", "grow", "", 0),
        ("a", "clear", "", 0),
        ("a", "put", "x", 2),
        ("b", "clear", "", 0),
    ]
    env.from_collection(commands).key_by(lambda c: c[0]).process(Edit()).print()
    env.execute("map state")
