"""Timers set twice fire once; deleted ones don't fire; deleting one that isn't there changes nothing."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor


class Alarm(KeyedProcessFunction):
    """Commands are (key, what, timestamp)."""

    def open(self, runtime_context):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.INT()))

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        if value[1] == "set":
            service.register_event_time_timer(value[2])
        elif value[1] == "delete":
            service.delete_event_time_timer(value[2])
        else:
            # In one call: set two, drop one, set it again, drop it again.
            service.register_event_time_timer(value[2])
            service.register_event_time_timer(value[2] + 1)
            service.delete_event_time_timer(value[2])
            service.register_event_time_timer(value[2])
            service.delete_event_time_timer(value[2])

    def on_timer(self, timestamp, ctx):
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        yield ctx.get_current_key(), timestamp, fired


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    # No watermark comes before the end of input, so every command is carried out before any timer fires.
    commands = env.from_collection(
        [
            ("twice", "set", 10),
            ("twice", "set", 10),
            ("twice", "set", 20),
            ("shared", "set", 10),
            ("gone", "set", 10),
            ("gone", "delete", 10),
            ("kept", "set", 10),
            ("kept", "delete", 11),
            ("back", "set", 10),
            ("back", "delete", 10),
            ("back", "set", 10),
            ("partly", "set", 10),
            ("partly", "set", 20),
            ("partly", "set", 30),
            ("partly", "delete", 20),
            ("mixed", "mixed", 40),
            ("negative", "set", -5),
        ],
        type_info=Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()]),
    ).assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
    commands.key_by(lambda c: c[0]).process(Alarm()).print()
    env.execute("setting and deleting timers")
