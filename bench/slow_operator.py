"""How long a checkpoint takes behind a slow operator, as a PyFlink program, which Beadline runs as well.

    python bench/slow_operator.py [--unaligned]

A keyed function sleeps two milliseconds a record; the source is always ahead of it. A checkpoint is taken every two
seconds, for a while, then the job is cancelled. The last line is JSON: how many completed, and their median and longest
duration in milliseconds.

Under PyFlink the ``python`` first on the PATH has to be the one that runs this file: Flink starts its workers with it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import urllib.request

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

SECONDS = 30
PORT = 18231


class Slow(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        time.sleep(0.002)
        self.state.update((self.state.value() or 0) + 1)
        yield value


def start(unaligned, folder):
    config = Configuration()
    config.set_string("python.execution-mode", "thread")
    config.set_string("execution.checkpointing.interval", "2 s")
    config.set_string("execution.checkpointing.dir", "file://" + folder)
    config.set_string("execution.checkpointing.unaligned.enabled", str(unaligned).lower())
    config.set_string("rest.port", str(PORT))
    config.set_string("rest.bind-address", "127.0.0.1")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers")
    slow = numbers.key_by(lambda n: n % 1000, key_type=Types.LONG()).process(Slow(), output_type=Types.LONG())
    slow.filter(lambda n: False).print()
    return env.execute_async("slow operator")


def durations(client):
    """Of the checkpoints that have completed so far, by id."""
    if hasattr(client, "get_checkpoint_statistics"):
        return {c["id"]: c["duration_ms"] for c in client.get_checkpoint_statistics() if c["status"] == "COMPLETED"}
    url = f"http://127.0.0.1:{PORT}/jobs/{client.get_job_id()}/checkpoints"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            history = json.load(answer)["history"]
    except OSError:  # not up yet
        return {}
    return {c["id"]: c["end_to_end_duration"] for c in history if c["status"] == "COMPLETED"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unaligned", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        client = start(arguments.unaligned, folder)
        found = {}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(0.5)
            found.update(durations(client))
        client.cancel().result()
    times = list(found.values())
    report = {"completed": len(times), "seconds": SECONDS}
    if times:
        report.update(median_ms=statistics.median(times), longest_ms=max(times))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
