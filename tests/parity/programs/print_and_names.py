"""print with and without identifier at several parallelisms, with names, uids and descriptions set."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_max_parallelism(32)
    print(env.get_parallelism(), env.get_max_parallelism())
    numbers = env.from_collection([1, 2, 3, 4, 5, 6], type_info=Types.INT()).name("numbers").uid("numbers-source")
    squares = numbers.map(lambda n: n * n, output_type=Types.INT()).name("squares").uid("squares-map")
    squares.set_description("the square of every number")
    print(numbers.get_name(), squares.get_name())

    squares.print().name("plain").uid("plain-sink")
    squares.print("two").set_parallelism(2).name("two").uid("two-sink")
    squares.print("one").set_parallelism(1).name("one").uid("one-sink")
    squares.print("four").set_parallelism(4).uid("four-sink")
    squares.map(lambda n: -n).set_parallelism(4).uid("negative").print("mixed").set_description("negative squares")
    squares.filter(lambda n: n > 20).start_new_chain().name("large").print("large").disable_chaining()
    squares.map(lambda n: n, output_type=Types.INT()).force_non_parallel().print("non-parallel").set_parallelism(1)
    env.execute("print and names")
