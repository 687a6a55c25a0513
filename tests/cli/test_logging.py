"""What a program that sets up logging for itself sees of Beadline and Spark."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest

from beadline.master.spark.session import _quiet_py4j, waiting_for

JOB = """
    import logging
    from pyflink.common import Duration, Types, WatermarkStrategy
    from pyflink.common.serialization import SimpleStringEncoder
    from pyflink.common.watermark_strategy import TimestampAssigner
    from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic
    from pyflink.datastream.connectors import StreamingFileSink
    from pyflink.datastream.window import Time, TumblingEventTimeWindows

    logging.basicConfig(level=logging.INFO)


    class Seconds(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value * 1000


    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 20, 3, 40], Types.LONG())
    numbers.add_sink(StreamingFileSink.for_row_format("out", SimpleStringEncoder()).build())
    env.execute("first")

    # With watermarks after each record, 3 would be late and left out.
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    timed = env.from_collection([1, 20, 3, 40], Types.LONG()).assign_timestamps_and_watermarks(strategy)
    windows = timed.key_by(lambda v: 0).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    windows.reduce(lambda a, b: a + b).print()
    env.execute("second")
    env.from_collection([1]).print()
    env.execute("third")
"""


@pytest.fixture
def py4j() -> Iterator[logging.Logger]:
    logger = logging.getLogger("py4j")
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_py4j_is_quiet_unless_the_program_says_otherwise(py4j: logging.Logger) -> None:
    py4j.setLevel(logging.NOTSET)
    _quiet_py4j()
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.INFO)
    assert logging.getLogger("py4j.clientserver").isEnabledFor(logging.WARNING)
    py4j.setLevel(logging.DEBUG)
    _quiet_py4j()
    assert py4j.level == logging.DEBUG


@pytest.mark.slow
@pytest.mark.spark
def test_a_program_that_logs_at_info(beadline, write, tmp_path):
    write("job.py", JOB)
    done = beadline("run", "--pyflink", "-D", "beadline.watermark.records=1", "job.py")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["4", "20", "40", "1"]
    written = [line for part in (tmp_path / "out").rglob("part-*") for line in part.read_text().splitlines()]
    assert written == ["1", "20", "3", "40"]
    assert "py4j" not in done.stderr
    assert "clientserver" not in done.stderr
    told = [line for line in done.stderr.splitlines() if "guarantee" in line]
    assert len(told) == 1
    assert "job 'first' " in told[0]
    assert ", guarantee: none (no checkpoints and no restart strategy: a failure ends the job)" in told[0]


class Terminal(io.StringIO):
    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


@pytest.mark.parametrize("is_one", [True, False])
def test_a_terminal_shows_what_is_waited_for(is_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(is_one)
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting_for("Spark starts"):
        assert terminal.getvalue() == ("Spark starts …" if is_one else "")
    assert terminal.getvalue().endswith("\r\x1b[K" if is_one else "")
