"""partition_custom with a Partitioner class, a lambda, and a KeySelector class."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeySelector, MapFunction, Partitioner


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class Number(KeySelector):
    def get_key(self, value):
        return value[1]


class WithIndex(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return f"{value[0]} {value[1]} on {self.index}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(4)
    beads = env.from_collection(
        [("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 4), ("f", 5), ("g", 6), ("h", 11)],
        type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
    )
    beads.partition_custom(Modulo(), Number()).map(WithIndex()).print("class")
    beads.partition_custom(lambda key, n: n - 1 - key % n, lambda v: v[1]).map(WithIndex()).print("lambda")
    beads.partition_custom(lambda key, n: ord(key) % n, lambda v: v[0]).map(WithIndex()).print("str-key")
    env.execute("custom partitioners")
