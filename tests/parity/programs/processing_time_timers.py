"""Processing-time timers that lie ahead when bounded input ends are dropped; event-time timers fire."""

import time

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction


class BothClocks(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        now = service.current_processing_time()
        service.register_processing_time_timer(now + 3_600_000)
        service.register_processing_time_timer(now + 7_200_000)
        service.delete_processing_time_timer(now + 7_200_000)
        service.register_event_time_timer(5000)
        yield value, abs(now - time.time() * 1000) < 600_000

    def on_timer(self, timestamp, ctx):
        yield "fired", ctx.get_current_key(), ctx.time_domain().name, timestamp


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    words = env.from_collection(["a", "b", "a", "c"], type_info=Types.STRING())
    words.key_by(lambda w: w).process(BothClocks()).print()
    env.execute("processing-time timers")
