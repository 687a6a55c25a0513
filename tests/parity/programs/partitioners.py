"""rebalance, shuffle, rescale, forward and broadcast, seen through the index of the receiving subtask."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction


class Tag(MapFunction):
    """Puts the index of its subtask behind what came before; drops the value, whose way is up to the scheduler."""

    def __init__(self, keep_value=False):
        self.keep_value = keep_value

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        if self.keep_value:
            return value, self.index
        return (*value, self.index) if isinstance(value, tuple) else (self.index,)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_collection(list(range(16)), type_info=Types.INT())

    # One sender: round robin gives each of the four receivers a quarter, whichever is first.
    numbers.rebalance().map(Tag()).set_parallelism(4).print("rebalance")
    numbers.rescale().map(Tag()).set_parallelism(4).print("rescale-1-to-4")

    # Subtask 0 of two feeds 0 and 1 of four; subtask 1 feeds 2 and 3.
    two = numbers.rebalance().map(Tag()).set_parallelism(2)
    two.rescale().map(Tag()).set_parallelism(4).print("rescale-2-to-4")
    four = numbers.rebalance().map(Tag()).set_parallelism(4)
    four.rescale().map(Tag()).set_parallelism(2).print("rescale-4-to-2")
    two.forward().map(Tag()).set_parallelism(2).print("forward")
    two.rebalance().map(Tag()).set_parallelism(1).print("gather")

    few = env.from_collection(["x", "y", "z"], type_info=Types.STRING())
    few.broadcast().map(Tag(keep_value=True)).set_parallelism(4).print("broadcast-4")
    few.broadcast().map(Tag(keep_value=True)).set_parallelism(1).print("broadcast-1")
    spread = few.rebalance().map(lambda v: v).set_parallelism(2)
    spread.broadcast().map(Tag(keep_value=True)).set_parallelism(2).print("broadcast-2")
    numbers.shuffle().map(lambda n: n * 10).set_parallelism(4).print("shuffle")
    numbers.map(lambda n: n + 100).set_parallelism(1).rebalance().filter(lambda n: n % 2 == 0).print("filtered")
    env.execute("partitioners")
