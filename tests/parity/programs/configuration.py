"""A Configuration given to the environment, and set later with configure()."""

from pyflink.common import Configuration, Types
from pyflink.datastream import CheckpointingMode, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction


class Parallelism(MapFunction):
    def open(self, runtime_context):
        self.numbers = (
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
        )

    def map(self, value):
        return value, self.numbers


if __name__ == "__main__":
    config = Configuration()
    config.set_integer("parallelism.default", 3)
    config.set_string("pipeline.max-parallelism", "24")
    config.set_string("state.backend.type", "hashmap")
    config.set_boolean("some.flag", True)
    config.set_float("some.fraction", 0.5)
    print(config.get_integer("parallelism.default", 1), config.get_string("absent", "by default"))
    print(config.get_boolean("some.flag", False), config.get_float("some.fraction", 0.0), config.contains_key("absent"))

    more = Configuration.from_dict({"some.flag": "false", "another": "x"})
    more.add_all(config)
    print(sorted(more.key_set()), more.get_boolean("some.flag", False), more.to_dict()["another"])
    print(more.remove_config("another"), more.remove_config("another"), more.contains_key("another"))

    env = StreamExecutionEnvironment.get_execution_environment(config)
    print(env.get_parallelism(), env.get_max_parallelism())
    numbers = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
    numbers.rebalance().map(Parallelism()).print("configured")
    env.execute()

    env.configure(Configuration.from_dict({"parallelism.default": "2"}))
    env.enable_checkpointing(60_000, CheckpointingMode.AT_LEAST_ONCE)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_min_pause_between_checkpoints(500)
    print(env.get_parallelism(), checkpoints.get_checkpoint_interval(), checkpoints.get_checkpointing_mode().name)
    print(checkpoints.get_checkpoint_timeout(), checkpoints.get_min_pause_between_checkpoints())
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_buffer_timeout(50)
    env.disable_operator_chaining()
    print(env.get_buffer_timeout(), env.is_chaining_enabled())
    numbers = env.from_collection([5, 6], type_info=Types.INT())
    numbers.rebalance().map(Parallelism()).print("later")
    env.execute()
