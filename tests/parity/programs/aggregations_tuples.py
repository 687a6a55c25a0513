"""sum, min, max, min_by and max_by on tuples and on plain numbers."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rows = [("a", 3, 1.5), ("b", 8, 0.5), ("a", 1, 2.5), ("a", 3, 4.0), ("b", 9, -1.0), ("a", 1, 9.0), ("b", 8, 0.25)]
    typed = env.from_collection(rows, type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]))
    keyed = typed.key_by(lambda r: r[0])
    keyed.sum(1).print("sum-1")
    keyed.sum(2).print("sum-2")
    keyed.min(1).print("min-1")
    keyed.max(1).print("max-1")
    keyed.min_by(1).print("min_by-1")
    keyed.max_by(1).print("max_by-1")
    keyed.max_by(2).print("max_by-2")

    untyped = env.from_collection(rows).key_by(lambda r: r[0])
    untyped.sum(1).print("untyped-sum")
    untyped.min_by(2).print("untyped-min_by")
    env.from_collection([["x", 1], ["x", 5], ["y", 2], ["x", -2]]).key_by(lambda r: r[0]).max(1).print("lists")

    numbers = env.from_collection([1, 2, 3, 4, 5, 6], type_info=Types.INT()).key_by(lambda n: n % 2)
    numbers.sum().print("sum")
    numbers.min().print("min")
    numbers.max().print("max")
    numbers.min_by().print("min_by")
    numbers.max_by().print("max_by")
    env.execute("aggregations of tuples")
