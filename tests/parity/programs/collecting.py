"""execute_and_collect: order, the first elements, and keyed streams."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    with env.from_collection(list(range(20))).execute_and_collect() as results:
        print("a source in order", list(results))
    doubled = env.from_collection(list(range(20))).map(lambda value: value * 2, Types.INT()).set_parallelism(1)
    with doubled.execute_and_collect() as results:
        print("one subtask in order", list(results))
    print("the first", env.from_collection(list(range(20))).execute_and_collect(limit=3))
    print("fewer than asked for", env.from_collection([1, 2]).execute_and_collect("named", 9))
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], Types.TUPLE([Types.STRING(), Types.INT()]))
    with pairs.key_by(lambda value: value[0], Types.STRING()).execute_and_collect() as results:
        print("keyed", list(results))
    for limit in (0, -1):
        try:
            env.from_collection([1]).execute_and_collect(limit=limit)
            print("taken", limit)
        except Exception:
            print("refused", limit)


if __name__ == "__main__":
    main()
