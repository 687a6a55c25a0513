"""open() comes before the first element and close() after the last, once in every subtask; the context's numbers."""

import os
import shutil
import tempfile

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FilterFunction, FlatMapFunction, KeyedProcessFunction, MapFunction


class Diary(MapFunction):
    """Writes what happens to it into a file of its subtask."""

    def __init__(self, directory):
        self.directory = directory

    def _note(self, text):
        with open(os.path.join(self.directory, f"subtask-{self.index}"), "a") as diary:
            diary.write(text + "\n")

    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self._note("open")

    def map(self, value):
        self._note("map")
        return value + 1

    def close(self):
        self._note("close")


class Numbers(FlatMapFunction):
    def open(self, runtime_context):
        self.numbers = (
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_attempt_number(),
            runtime_context.get_job_parameter("greeting", "nothing"),
            runtime_context.get_job_parameter("missing", "nothing"),
        )

    def flat_map(self, value):
        yield self.numbers


class OpenedKeyed(KeyedProcessFunction):
    def open(self, runtime_context):
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()
        self.maximum = runtime_context.get_max_number_of_parallel_subtasks()

    def process_element(self, value, ctx):
        yield value, self.parallelism, self.maximum


class OpenedFilter(FilterFunction):
    """Lets through what is larger than what open() found."""

    def open(self, runtime_context):
        self.limit = runtime_context.get_number_of_parallel_subtasks()

    def filter(self, value):
        return value > self.limit


if __name__ == "__main__":
    directory = tempfile.mkdtemp()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.get_config().set_global_job_parameters({"greeting": "hello", "answer": 42})
    numbers = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
    numbers.rebalance().map(Diary(directory)).print("diary")
    numbers.rebalance().flat_map(Numbers()).print("two")
    numbers.rebalance().flat_map(Numbers()).set_parallelism(4).set_max_parallelism(16).print("four")
    numbers.rebalance().flat_map(Numbers()).set_parallelism(1).print("one")
    numbers.key_by(lambda n: n).process(OpenedKeyed()).set_max_parallelism(7).print("keyed")
    numbers.filter(OpenedFilter()).print("filter")
    env.execute("lifecycle")

    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name)) as diary:
            print(name, diary.read().split())
    shutil.rmtree(directory)
