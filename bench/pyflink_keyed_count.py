"""The benchmark's computation as a PyFlink program, which Beadline runs as well: beadline run --pyflink.

    python bench/pyflink_keyed_count.py records.csv

Reads lines of ``key,value`` with FileSource, parses them in a Python map, keeps (count, sum) for each key in a
ValueState, makes (key, count, sum) for each record and prints those of the watched keys. The last line is JSON:
records, seconds, records_per_second. ``seconds`` is the whole job, from execute() to its end.

Under PyFlink the ``python`` first on the PATH has to be the one that runs this file: Flink starts its workers with it.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

WATCHED_KEYS = frozenset({"key-0", "key-1"})


def parse(line):
    key, value = line.split(",")
    return key, int(value)


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("count and sum", pair))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        count, total = self.state.value() or (0, 0)
        count, total = count + 1, total + value[1]
        self.state.update((count, total))
        yield value[0], count, total


def build(env, path):
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
    parsed = lines.map(parse, output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
    counted = parsed.key_by(lambda record: record[0], key_type=Types.STRING()).process(
        RunningCount(), output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    )
    counted.filter(lambda result: result[0] in WATCHED_KEYS).print()


def count_lines(path):
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="file of key,value lines, as bench/data.py writes it")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--warm-up", help="a smaller file to run first, so that starting up is not measured")
    parser.add_argument(
        "--execution-mode", choices=("thread", "process"), default="thread", help="how PyFlink runs Python"
    )
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap", help="where state is kept")
    parser.add_argument("--checkpoints", metavar="FOLDER", help="take a checkpoint every second")
    arguments = parser.parse_args()

    config = Configuration()
    if arguments.checkpoints:
        config.set_string("execution.checkpointing.interval", "1 s")
        config.set_string("execution.checkpointing.dir", "file://" + os.path.abspath(arguments.checkpoints))
    config.set_string("python.execution-mode", arguments.execution_mode)
    config.set_string("state.backend.type", arguments.backend)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(arguments.parallelism)
    if arguments.warm_up:
        build(env, os.path.abspath(arguments.warm_up))
        env.execute("warm-up")
    build(env, os.path.abspath(arguments.path))
    records = count_lines(arguments.path)
    started = time.perf_counter()
    env.execute("keyed count")
    seconds = time.perf_counter() - started
    report = {"records": records, "seconds": round(seconds, 3), "records_per_second": round(records / seconds)}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
