"""Starts a job with state from a table, and shows that state as a table:

python examples/bootstrap_state.py
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

from beadline import state_processor
from beadline.common import Configuration, Types
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.state_processor import SavepointWriter

NEW_ORDERS = [("ann", 3), ("eve", 1), ("bob", 2), ("ann", 1)]


class Totals(KeyedProcessFunction):
    """How many pieces each customer has ordered, ever."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order, ctx):
        total = (self.total.value() or 0) + order[1]
        self.total.update(total)
        yield f"{order[0]}: {total}"


def bootstrap(spark, path):
    """The totals of all the years before, from a table."""
    totals = spark.createDataFrame([("ann", 1000), ("bob", 2000)], "customer string, pieces long")
    writer = SavepointWriter.new_savepoint(spark).with_keyed_state(
        "totals", "total", totals, key="customer", value="pieces", key_type=Types.STRING(), value_type=Types.LONG()
    )
    return writer.write(path)


def run(savepoint):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.state-recovery.path": savepoint})
    )
    orders = env.from_collection(NEW_ORDERS, Types.TUPLE([Types.STRING(), Types.LONG()])).uid("orders")
    totals = orders.key_by(lambda order: order[0], Types.STRING()).process(Totals(), Types.STRING()).uid("totals")
    totals.print()
    env.execute("totals")


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = tempfile.mkdtemp()
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    path = bootstrap(session, f"{folder}/bootstrapped")
    state_processor.read(session, path).keyed_state("totals", "total").orderBy("key").show()
    run(path)
