"""execute_and_collect as context manager, with a limit, with a name, of typed and untyped streams."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4, 5], type_info=Types.INT())
    with numbers.map(lambda n: n * n, output_type=Types.INT()).execute_and_collect() as results:
        for value in results:
            print("managed", type(value).__name__, value)

    print("limited", numbers.map(lambda n: n + 10, output_type=Types.INT()).execute_and_collect(limit=3))
    print("limit above the size", numbers.execute_and_collect("a name", 100))

    iterator = numbers.filter(lambda n: n % 2 == 0).execute_and_collect("even numbers")
    print("next", next(iterator), iterator.next())
    print("rest", list(iterator))
    iterator.close()

    with numbers.map(lambda n: {"n": n, "text": "x" * n}).execute_and_collect() as results:
        print("untyped", sorted(results, key=lambda d: d["n"]))
    pairs = numbers.map(lambda n: (n % 2, n), output_type=Types.TUPLE([Types.INT(), Types.INT()]))
    with pairs.key_by(lambda p: p[0]).sum(1).execute_and_collect() as results:
        print("tuples", sorted(results))
    rows = numbers.map(lambda n: Row(n, None), output_type=Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    for row in rows.execute_and_collect(limit=2):
        print("row", row, row.a, row["b"])
    lists = numbers.map(lambda n: [0.1] * n, output_type=Types.LIST(Types.DOUBLE()))
    print("lists", lists.execute_and_collect(limit=2))
