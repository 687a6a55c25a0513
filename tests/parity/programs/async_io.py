"""AsyncDataStream in all four forms: any number of results, timeouts, retries, timestamps, open and close."""

import asyncio

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AsyncDataStream, StreamExecutionEnvironment
from pyflink.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from pyflink.datastream.functions import AsyncFunction, AsyncRetryStrategy, ProcessFunction, RuntimeContext

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Copies(AsyncFunction):
    """As many results as the number says, the later numbers first."""

    def open(self, runtime_context: RuntimeContext):
        self.prefix = runtime_context.get_job_parameter("prefix", "copy")

    async def async_invoke(self, value):
        await asyncio.sleep(0.01 * (5 - value % 5))
        return [f"{self.prefix} {i} of {value}" for i in range(value % 4)]

    def close(self):
        self.prefix = None


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        if value % 3 == 0:
            await asyncio.sleep(30)
        return [("in time", value)]

    def timeout(self, value):
        return [("too late", value), ("again", value)]


class Flaky(AsyncFunction):
    """Needs as many attempts as the number's remainder says, and one more."""

    def __init__(self, raises):
        self._raises = raises

    def open(self, runtime_context: RuntimeContext):
        self.attempts = {}

    async def async_invoke(self, value):
        attempts = self.attempts[value] = self.attempts.get(value, 0) + 1
        if attempts > value % 4:
            return [(f"after {attempts}", value)]
        if self._raises:
            raise ConnectionError(f"attempt {attempts}")
        return []


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 10


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(12)), type_info=Types.LONG())
    ten = Time.seconds(10)

    AsyncDataStream.ordered_wait(numbers, Copies(), ten, 5, Types.STRING()).print("ordered")
    AsyncDataStream.unordered_wait(numbers, Copies(), ten, output_type=Types.STRING()).print("unordered")
    AsyncDataStream.ordered_wait(numbers, Slow(), Time.milliseconds(200), output_type=PAIR).print("timeouts")

    on_error = AsyncRetryStrategy.fixed_delay(3, 10, None, has_exception_predicate)
    AsyncDataStream.ordered_wait_with_retry(numbers, Flaky(True), ten, on_error, 100, PAIR).print("exceptions")
    on_empty = AsyncRetryStrategy.exponential_backoff(2, 5, 50, 2.0, empty_result_predicate, None)
    AsyncDataStream.unordered_wait_with_retry(numbers, Flaky(False), ten, on_empty, 100, PAIR).print("empty")

    timed = numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    )
    looked_up = AsyncDataStream.ordered_wait(timed, Slow(), Time.milliseconds(200), output_type=PAIR)
    looked_up.process(Stamp(), output_type=PAIR).print("timestamps")
    env.execute("async")
