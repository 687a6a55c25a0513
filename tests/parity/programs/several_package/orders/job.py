from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from .functions import Totals
from .model import Order

ORDERS = [
    Order("ann", "bead", 3),
    Order("bob", "thread", 1),
    Order("ann", "thread", 2),
    Order("cid", "bead", 40),
    Order("ann", "bead", 1),
]


def run():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    orders = env.from_collection(ORDERS)
    orders.key_by(lambda order: order.customer).process(Totals(), Types.STRING()).print()
    env.execute("orders")
