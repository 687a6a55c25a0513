from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

from . import Total


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        from .pricing import prices

        self.price_of = prices.price_of
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, order, ctx):
        total = (self.total.value() or Total()).add(order.count, order.count * self.price_of(order.article))
        self.total.update(total)
        yield f"{ctx.get_current_key()}: {total.count} articles, {total.cents} cents"
