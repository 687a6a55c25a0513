"""sum, min, max, min_by and max_by on rows, by position and by field name."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    values = [("a", 3, "p"), ("b", 8, "q"), ("a", 1, "r"), ("a", 7, "s"), ("b", 9, "t"), ("a", 1, "u")]

    plain = env.from_collection(values, type_info=Types.ROW([Types.STRING(), Types.INT(), Types.STRING()]))
    by_position = plain.key_by(lambda r: r[0])
    by_position.sum(1).print("sum-1")
    by_position.min(1).print("min-1")
    by_position.max_by(1).print("max_by-1")

    named = env.from_collection(
        values,
        type_info=Types.ROW_NAMED(["key", "amount", "note"], [Types.STRING(), Types.INT(), Types.STRING()]),
    )
    by_name = named.key_by(lambda r: r.key)
    by_name.sum("amount").print("sum-name")
    by_name.min("amount").print("min-name")
    by_name.max("amount").print("max-name")
    by_name.min_by("amount").print("min_by-name")
    by_name.max_by("amount").print("max_by-name")
    by_name.reduce(lambda a, b: Row(key=a.key, amount=a.amount + b.amount, note=a.note + b.note)).print("reduce")
    by_name.map(lambda r: r.as_dict()).print("as_dict")
    env.execute("aggregations of rows")
