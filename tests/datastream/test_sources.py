"""Whole programs with each kind of source."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.connectors.collections import SequenceSource
from beadline.datastream import MapFunction, ProcessFunction
from beadline.datastream.connectors.file_system import FileSource, StreamFormat
from beadline.datastream.connectors.hybrid_source import HybridSource
from beadline.datastream.connectors.number_seq import NumberSequenceSource
from beadline.datastream.connectors.socket import SocketSource
from beadline.errors import ConfigurationError, InputError, UnsupportedFeatureError
from tests.lines_server import LinesServer

from .jobs import collect, environment, restarting

pytestmark = pytest.mark.usefixtures("engine")

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
CHECKPOINTS = {"execution__checkpointing__interval": "50 ms"}


@pytest.fixture
def server() -> Iterator[LinesServer]:
    made = LinesServer()
    yield made
    made.close()


# -- add_source


@pytest.mark.parametrize("source", [SequenceSource(1, 9), NumberSequenceSource(1, 9)], ids=["engine's", "connector"])
def test_add_source_takes_what_from_source_takes(source: Any) -> None:
    env = environment(1)
    assert collect(env.add_source(source, "numbers", Types.LONG())) == list(range(1, 10))
    assert env.add_source(source).get_name() == "Custom Source"


def test_add_source_names_what_it_can_not_read() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"add_source can't read from object\. Use a connector"):
        environment().add_source(object())
    with pytest.raises(ConfigurationError, match=r"add_source needs an object.*SequenceSource\(…\)"):
        environment().add_source(SequenceSource)


# -- parts of a reader


class Slice(InputPartition):
    def __init__(self, part: str, first: int, end: int) -> None:
        super().__init__(part)
        self.part, self.first, self.end = part, first, end


class Sensors(DataSourceStreamReader):
    """Sensors that are asked in turn. The one called "late" is there only after the others have given ten values."""

    bounded = True
    total = 40

    def initialOffset(self) -> dict[str, int]:
        return {"fast": 0, "slow": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        end = {name: min(self.total, at + 5) for name, at in start.items()}
        if end["fast"] >= 10:
            end.setdefault("late", 5)
        return end

    def parts(self, offset: dict[str, int]) -> list[str]:
        return [name for name, at in offset.items() if at < self.total]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # type: ignore[override]
        return [Slice(name, start.get(name, 0), at) for name, at in end.items() if at > start.get(name, 0)]

    def read(self, partition: Any) -> Iterator[tuple[str, int]]:
        pace = {"fast": 1000, "slow": 10, "late": 10_000}[partition.part]
        return ((partition.part, (number + 1) * pace) for number in range(partition.first, partition.end))


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Lateness(ProcessFunction):
    """Whether each record is behind the watermark."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value[0], value[1], ctx.timestamp() <= ctx.timer_service().current_watermark()


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


@pytest.mark.parametrize("chaining", [True, False])
def test_each_part_of_a_reader_has_its_own_watermark(chaining: bool) -> None:
    env = environment(3, beadline__watermark__records=1)
    if not chaining:
        env.disable_operator_chaining()
    stream = env.from_source(Sensors(), ASCENDING, "sensors")
    found = collect(stream.rebalance().process(Lateness()).set_parallelism(1))
    assert {name for name, _, _ in found} == {"fast", "slow", "late"}
    assert len(found) == 3 * Sensors.total, "a part that appears while the job runs is read as well"
    assert [row for row in found if row[2]] == [], "each is in order, so nothing is late"


def test_with_one_watermark_for_all_the_slower_part_is_late() -> None:
    env = environment(1, beadline__watermark__records=1)
    stream = env.from_source(Sensors(), NO_WATERMARKS, "sensors").assign_timestamps_and_watermarks(ASCENDING)
    late = {name for name, _, is_late in collect(stream.process(Lateness())) if is_late}
    assert "slow" in late


class Nameless(Sensors):
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # type: ignore[override]
        return [InputPartition(7)]


def test_partitions_of_a_reader_with_parts_must_name_theirs() -> None:
    with pytest.raises(ConfigurationError, match=r"Nameless has a method parts\(\).*InputPartition has None"):
        collect(environment(1).from_source(Nameless(), NO_WATERMARKS, "sensors"))


@pytest.mark.spark
def test_parts_and_a_broken_worker_on_spark(tmp_path: Path) -> None:
    """The watermark of each part survives in a worker that did not see its beginning."""
    env = restarting(2, 2, beadline__watermark__records=1, **CHECKPOINTS)
    stream = env.from_source(Sensors(), ASCENDING, "sensors").map(FailsOnce(str(tmp_path / "failed"), ("slow", 200)))
    found = collect(stream.rebalance().process(Lateness()).set_parallelism(1))
    assert (tmp_path / "failed").exists()
    assert len(found) == 3 * Sensors.total
    assert [row for row in found if row[2]] == []


class FailsOnce(MapFunction):
    """Raises when it sees a value for the first time, in whatever process."""

    def __init__(self, marker: str, value: Any) -> None:
        self._marker, self._value = marker, value

    def map(self, value: Any) -> Any:
        if value == self._value and not os.path.exists(self._marker):
            Path(self._marker).touch()
            raise RuntimeError("on purpose")
        return value


@pytest.mark.parametrize("kind", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_partitions_of_a_class_that_no_module_holds(kind: str) -> None:
    class Here(Slice):
        pass

    class Local(Sensors):
        def partitions(self, start: Any, end: Any) -> list[InputPartition]:  # type: ignore[override]
            return [Here(name, start.get(name, 0), at) for name, at in end.items() if at > start.get(name, 0)]

    assert len(collect(environment(1).from_source(Local(), NO_WATERMARKS, "sensors"))) == 3 * Sensors.total


# -- one after the other


def test_history_from_one_folder_then_the_present_from_another(tmp_path: Path) -> None:
    for name, lines in (("old", "a\nb\nc\n"), ("new", "d\ne\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text(lines)

    def files(name: str) -> FileSource:
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / name)).build()

    source = HybridSource.builder(files("old")).add_source(files("new")).build()
    env = restarting(1, 1, step_records=2, **CHECKPOINTS)
    stream = env.from_source(source, NO_WATERMARKS, "both")
    assert stream.get_type() == Types.STRING()
    failing = stream.map(FailsOnce(str(tmp_path / "failed"), "d"), output_type=Types.STRING())
    assert collect(failing) == ["a", "b", "c", "d", "e"]
    assert (tmp_path / "failed").exists()


# -- as fast as it may


def test_a_rate_limit_makes_steps_small() -> None:
    env = environment(1, **{"beadline.source.max-records-per-second": 50})
    reports: list[int] = []
    env.add_step_listener(lambda report: reports.append(report.records))
    assert len(collect(env.from_sequence(1, 70))) == 70
    assert reports[0] == 50, "a second's worth at once, then as time passes"
    assert sum(reports) == 70


def test_a_rate_must_be_positive() -> None:
    with pytest.raises(ConfigurationError, match=r"max-records-per-second must be more than 0, got 0\.0"):
        collect(environment(1, **{"beadline.source.max-records-per-second": 0}).from_sequence(1, 2))


# -- sockets


def serve(server: LinesServer, lines: list[str]) -> threading.Thread:
    """Send the lines, a few at a time, and hang up."""

    def send() -> None:
        server.accept()
        for start in range(0, len(lines), 10):
            server.send("".join(f"{line}\n" for line in lines[start : start + 10]).encode())
            time.sleep(0.02)
        server.hang_up()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_lines_of_a_socket(kind: str, server: LinesServer) -> None:
    lines = [f"line {number}" for number in range(100)]
    serve(server, lines)
    stream = environment(2).from_source(SocketSource("127.0.0.1", server.port), NO_WATERMARKS, "lines")
    assert stream.get_type() == Types.STRING()
    assert collect(stream) == lines


def test_a_function_that_fails_loses_no_line(server: LinesServer, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(200)]
    serve(server, lines)
    env = restarting(1, 1, **CHECKPOINTS)
    stream = env.add_source(SocketSource("127.0.0.1", server.port), "lines")
    assert collect(stream.map(FailsOnce(str(tmp_path / "failed"), "line 150"))) == lines
    assert (tmp_path / "failed").exists()


class KillsOnce(FailsOnce):
    """Ends its process when it sees a value for the first time."""

    def map(self, value: Any) -> Any:
        if value == self._value and not os.path.exists(self._marker):
            Path(self._marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value


@pytest.mark.spark
def test_a_killed_worker_loses_no_line(server: LinesServer, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(200)]
    serve(server, lines)
    stream = environment(1, **CHECKPOINTS).add_source(SocketSource("127.0.0.1", server.port), "lines")
    assert collect(stream.map(KillsOnce(str(tmp_path / "killed"), "line 120"))) == lines
    assert (tmp_path / "killed").exists()


def test_the_job_says_that_its_guarantee_is_at_most_once(server: LinesServer) -> None:
    env = environment(1, **CHECKPOINTS)
    env.add_source(SocketSource("127.0.0.1", server.port), "lines").print()
    told = json.loads(env.get_execution_plan())["guarantee"]
    assert told == "at-most-once (source 'lines' can't give again what it gave before a failure)"


def test_nobody_answers(server: LinesServer) -> None:
    server.close()
    with pytest.raises(InputError, match=rf"can't connect to 127\.0\.0\.1:{server.port}"):
        collect(environment(1).from_source(SocketSource("127.0.0.1", server.port), NO_WATERMARKS, "lines"))


PROGRAM = """
import sys
from beadline.common import Configuration, Encoder, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink, RollingPolicy
from beadline.datastream.connectors.socket import SocketSource

port, folder, start = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
options = {
    "beadline.engine": "local",
    "execution.checkpointing.interval": "50 ms",
    "execution.checkpointing.dir": folder + "/checkpoints",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
if start:
    options["execution.state-recovery.path"] = start[0]
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(1)
source = SocketSource("127.0.0.1", port)
sink = (
    FileSink.for_row_format(folder + "/out", Encoder.simple_string_encoder())
    .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines").sink_to(sink).uid("out")
env.execute("lines")
"""


def written(folder: Path) -> list[str]:
    files = sorted((folder / "out").glob("[!.]*/part-*"))
    return [line for path in files for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("published", [1, 100])
def test_a_killed_driver_loses_lines_and_repeats_none(server: LinesServer, tmp_path: Path, published: int) -> None:
    program = tmp_path / "lines.py"
    program.write_text(PROGRAM)

    def start(*more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(program), str(server.port), str(tmp_path), *more])

    first = start()
    server.accept()
    sent = 0
    while len(written(tmp_path)) < published:  # some are published, some staged, some on their way when it dies
        server.send(b"first %d\n" % sent)
        sent += 1
        time.sleep(0.002)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = written(tmp_path)
    second = start("latest")
    server.accept()
    server.send(b"".join(b"second %d\n" % number for number in range(100)))
    server.hang_up()
    assert second.wait(120) == 0
    after = written(tmp_path)
    assert len(after) == len(set(after)), "none is there twice"
    assert set(before) <= set(after), "what was published stays"
    assert {f"second {number}" for number in range(100)} <= set(after)
    survived = sorted(int(line.split()[1]) for line in after if line.startswith("first"))
    assert survived == list(range(len(survived))), "what is lost is what came last"
    assert len(survived) <= sent
