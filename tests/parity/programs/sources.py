"""NumberSequenceSource, and FileSource with text lines of one file, of several and of a directory."""

import os
import shutil
import tempfile

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


def write(path, text, encoding="utf-8"):
    with open(path, "w", encoding=encoding, newline="") as file:
        file.write(text)
    return path


def lines_of(env, name, *paths, charset="UTF-8"):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *paths)
    return env.from_source(source.process_static_file_set().build(), WatermarkStrategy.no_watermarks(), name)


if __name__ == "__main__":
    directory = tempfile.mkdtemp()
    one = write(os.path.join(directory, "one.txt"), "alpha\nbeta\n\ngamma delta\n")
    two = write(os.path.join(directory, "two.txt"), "no newline at the end")
    crlf = write(os.path.join(directory, "crlf.txt"), "first\r\nsecond\r\n")
    nested = os.path.join(directory, "nested")
    os.mkdir(nested)
    write(os.path.join(nested, "a.txt"), "in a\n")
    os.mkdir(os.path.join(nested, "deeper"))
    write(os.path.join(nested, "deeper", "b.txt"), "in b\n")
    write(os.path.join(nested, ".hidden"), "hidden\n")
    write(os.path.join(nested, "_started"), "underscore\n")
    latin = write(os.path.join(directory, "latin.txt"), "caf\u00e9\n", encoding="latin-1")

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    sequence = env.from_source(
        NumberSequenceSource(1, 20), WatermarkStrategy.no_watermarks(), "sequence", type_info=Types.LONG()
    )
    sequence.print("sequence")
    parity = sequence.map(lambda n: ("even" if n % 2 == 0 else "odd", n))
    parity.key_by(lambda p: p[0]).map(lambda p: p[0]).print("parity")
    single = env.from_source(NumberSequenceSource(5, 5), WatermarkStrategy.no_watermarks(), "single", Types.LONG())
    single.print("single")

    lines_of(env, "one", one).print("one")
    lines_of(env, "both", one, two).map(lambda line: len(line)).print("lengths")
    lines_of(env, "crlf", crlf).map(repr).print("crlf")
    lines_of(env, "nested", nested).print("nested")
    lines_of(env, "latin", latin, charset="ISO-8859-1").print("latin")
    words = lines_of(env, "words", one).flat_map(str.split).map(lambda w: (w[0], 1))
    words.key_by(lambda p: p[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).print("letters")
    env.execute("sources")
    shutil.rmtree(directory)
