"""Jobs that write Parquet files, and are killed with kill -9: every row is there once, with the right sum."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beadline
from tests.nightly import NIGHTLY
from tests.recovery.consuming import of_folder
from tests.recovery.drivers import Driver, newest_checkpoint
from tests.recovery.dying import COMMIT_POINTS
from tests.recovery.jobs import ENGINE, LOCAL, STEP, differences, leftovers

NUMBERS, KEYS = 6_000, 7

JOB = """
    import time
    from pyflink.common import Row, Types, WatermarkStrategy
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.datastream.connectors.file_system import FileSink, FileSource
    from pyflink.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
    from pyflink.datastream.functions import KeyedProcessFunction
    from pyflink.datastream.state import ValueStateDescriptor
    from pyflink.table import DataTypes

    class Sum(KeyedProcessFunction):
        def open(self, context):
            self.sum = context.get_state(ValueStateDescriptor("sum", Types.LONG()))

        def process_element(self, row, context):
            time.sleep(0.0002)
            self.sum.update((self.sum.value() or 0) + row.number)
            yield Row(number=row.number, total=self.sum.value())

    read = DataTypes.ROW([DataTypes.FIELD("number", DataTypes.BIGINT())])
    written = DataTypes.ROW([DataTypes.FIELD(name, DataTypes.BIGINT()) for name in ("number", "total")])
    env = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(read), "in").build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.key_by(lambda row: row.number % 7, Types.LONG()).process(Sum(), written.type_info()).uid("sums")
    sums.sink_to(FileSink.for_bulk_format("out", ParquetBulkWriters.for_row_type(written)).build()).uid("files")
    env.execute("sums")
"""


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    settings = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "beadline.step.max-records": "300",
    }
    defined = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "beadline.cli.main",
        "run",
        "--pyflink",
        "--engine",
        "local",
        "-p",
        "2",
        *defined,
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(beadline.__file__).parents[1])}
    return subprocess.Popen([*command, "job.py"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("checkpoints/*/chk-*/_metadata"))


def kill_after_a_checkpoint(folder: Path, *options: str) -> None:
    seen, process = checkpoints(folder), start(folder, *options)
    deadline = time.monotonic() + 60
    while not checkpoints(folder) - seen:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def written(folder: Path) -> list[tuple[int, int]]:
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    visible = [path for path in files if ".staging" not in str(path)]
    tables = [pq.read_table(io.BytesIO(path.read_bytes())).to_pylist() for path in visible]
    return sorted((row["number"], row["total"]) for table in tables for row in table)


def sums() -> list[tuple[int, int]]:
    totals = dict.fromkeys(range(KEYS), 0)
    found = []
    for number in range(NUMBERS):
        totals[number % KEYS] += number
        found.append((number, totals[number % KEYS]))
    return found


@pytest.mark.slow
def test_after_kill_9_every_row_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"number": list(range(NUMBERS))}), tmp_path / "in" / "a.parquet", row_group_size=1000)
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB), encoding="utf-8")
    for options in ((), ("-s", "latest"), ("-s", "latest")):
        kill_after_a_checkpoint(tmp_path, *options)
        there = written(tmp_path)
        assert len(set(there)) == len(there), "nothing twice, at no time"
        assert set(there) <= set(sums())
    last = start(tmp_path, "-s", "latest")
    said = last.communicate(timeout=120)[1]
    assert last.returncode == 0, said
    assert "restored from " in said
    assert written(tmp_path) == sums()


@pytest.mark.slow
@pytest.mark.parametrize("engine", [LOCAL, {}] if NIGHTLY else [LOCAL], ids=lambda engine: engine.get(ENGINE, "spark"))
def test_a_driver_killed_at_each_point_of_the_commit_protocol(
    engine: dict[str, str], tmp_path: Path, drivers: list[Driver]
) -> None:
    """Pieces become a file when they are pre-committed, and somebody takes away what is published."""
    records = 12 * len(COMMIT_POINTS) * STEP
    options = {"execution.checkpointing.interval": "200 ms", **engine}

    def start(pace: float, dies: str | None = None) -> Driver:
        resume = "latest" if newest_checkpoint(tmp_path) else None
        drivers.append(Driver(tmp_path, records, pace, resume, options, dies, form="parquet"))
        return drivers[-1]

    with of_folder(tmp_path) as consumer:
        for point in COMMIT_POINTS:
            driver = start(0.003, point)
            assert driver.end() == -signal.SIGKILL, f"{point}: {driver!r}"
            assert differences(consumer.look(), records, whole=False) == [], point
        assert 0 < len(consumer.look()) < records, "the kills came in the middle"
        last = start(0.0)
        assert last.end() == 0, last
        assert differences(consumer.look(), records) == []
    assert leftovers(tmp_path) == []
