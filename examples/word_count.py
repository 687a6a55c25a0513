"""Counts words. Written for PyFlink, and run on Spark as it is:

beadline run --pyflink examples/word_count.py
beadline run --pyflink examples/word_count.py --input some/file.txt
"""

import argparse

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

TEXT = [
    "three friends count the beads of a necklace",
    "every now and then they tie a band around the string",
    "when one of the friends loses count",
    "the friends go back to the last band and count on from there",
]


def word_count(path=None):
    env = StreamExecutionEnvironment.get_execution_environment()
    # Batch: one line a word, when all have been counted. In streaming mode every word prints its new count.
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    if path is None:
        lines = env.from_collection(TEXT, type_info=Types.STRING())
    else:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    (
        lines.flat_map(lambda line: line.split(), output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .filter(lambda pair: pair[1] > 1)
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Counts words.")
    parser.add_argument("--input", help="a text file or a folder of them")
    word_count(parser.parse_args().input)
