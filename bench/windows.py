"""Windowed sums as a PyFlink program, which Beadline runs as well: beadline run --pyflink.

    python bench/windows.py tumbling events.csv

Reads lines of ``key,value,time`` with FileSource, parses them in a Python map, and sums the values per key in
event-time windows: ``tumbling`` of one second, ``sliding`` of ten seconds with a slide of one. Prints the sums of the
watched keys. The last line is JSON: records, seconds, records_per_second. ``seconds`` is the whole job, from execute()
to its end.

Under PyFlink the ``python`` first on the PATH has to be the one that runs this file: Flink starts its workers with it.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

WATCHED_KEYS = frozenset({"key-0", "key-1"})
ASSIGNERS = {
    "tumbling": lambda: TumblingEventTimeWindows.of(Time.seconds(1)),
    "sliding": lambda: SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(1)),
}


def parse(line):
    key, value, event_time = line.split(",")
    return key, int(value), int(event_time)


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def add(one, other):
    return one[0], one[1] + other[1], one[2]


def build(env, windows, path):
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
    event = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    # The file is read from several places at once: allow for the difference between them.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    timed = lines.map(parse, output_type=event).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(EventTime())
    )
    sums = timed.key_by(lambda record: record[0], key_type=Types.STRING()).window(ASSIGNERS[windows]()).reduce(add)
    sums.filter(lambda result: result[0] in WATCHED_KEYS).print()


def count_lines(path):
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windows", choices=ASSIGNERS)
    parser.add_argument("path", help="file of key,value,time lines, as bench/data.py --per-second writes it")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--warm-up", help="a smaller file to run first, so that starting up is not measured")
    parser.add_argument(
        "--execution-mode", choices=("thread", "process"), default="thread", help="how PyFlink runs Python"
    )
    arguments = parser.parse_args()

    config = Configuration()
    config.set_string("python.execution-mode", arguments.execution_mode)
    config.set_string("state.backend.type", "hashmap")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(arguments.parallelism)
    if arguments.warm_up:
        build(env, arguments.windows, os.path.abspath(arguments.warm_up))
        env.execute("warm-up")
    build(env, arguments.windows, os.path.abspath(arguments.path))
    records = count_lines(arguments.path)
    started = time.perf_counter()
    env.execute(f"{arguments.windows} windows")
    seconds = time.perf_counter() - started
    report = {"records": records, "seconds": round(seconds, 3), "records_per_second": round(records / seconds)}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
