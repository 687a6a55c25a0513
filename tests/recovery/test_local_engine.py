"""Jobs on the local engine leave checkpoints that they resume from, and so do jobs on Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import beadline

NUMBERS = 8_000
KEYS = 7

JOB = """
    import sys, time
    from beadline.common import Types
    from beadline.common.serialization import Encoder
    from beadline.datastream import StreamExecutionEnvironment
    from beadline.datastream.connectors.file_system import FileSink
    from beadline.datastream.functions import KeyedProcessFunction
    from beadline.datastream.state import ValueStateDescriptor

    KEYS = int(sys.argv[2])

    class Sum(KeyedProcessFunction):
        def open(self, context):
            self.sum = context.get_state(ValueStateDescriptor("sum", Types.LONG()))

        def process_element(self, value, context):
            time.sleep(0.0001)
            self.sum.update((self.sum.value() or 0) + value)
            yield f"{value} {self.sum.value()}"

    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_sequence(1, int(sys.argv[1])).uid("numbers")
    sums = numbers.key_by(lambda n: n % KEYS, Types.LONG()).process(Sum(), Types.STRING()).uid("sums")
    sums.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()).uid("files")
    env.execute("sums")
"""


class Program:
    """The job, its checkpoints and its output in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = "local"
        self.numbers = NUMBERS
        (folder / "job.py").write_text(textwrap.dedent(JOB), encoding="utf-8")

    def start(self, *options: str) -> subprocess.Popen[str]:
        settings = {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "state.backend.type": "rocksdb",
        }
        defined = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "beadline.cli.main", "run", "--engine", self.engine, *defined, *options]
        return subprocess.Popen(
            [*command, "job.py", str(self.numbers), str(KEYS)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(beadline.__file__).parents[1])},
            stderr=subprocess.PIPE,
            text=True,
        )

    def checkpoints(self) -> set[Path]:
        return set(self.folder.glob("checkpoints/*/chk-*/_metadata"))

    def wait_for_checkpoint(self, process: subprocess.Popen[str], seen: set[Path]) -> None:
        deadline = time.monotonic() + 120
        while not self.checkpoints() - seen:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def interrupt(self, how: signal.Signals, *options: str) -> tuple[int, str]:
        """Run it until it has a checkpoint of its own, and then end it."""
        seen = self.checkpoints()
        process = self.start(*options)
        self.wait_for_checkpoint(process, seen)
        process.send_signal(how)
        said = process.communicate(timeout=60)[1]
        return process.returncode, said

    def finish(self, *options: str) -> str:
        process = self.start(*options)
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
        return said

    def written(self) -> list[tuple[int, int]]:
        """The lines of finished files."""
        files = [path for path in (self.folder / "out").rglob("*") if path.is_file()]
        visible = [path for path in files if not path.name.startswith((".", "_"))]
        lines = [line.split() for path in visible for line in path.read_text().splitlines()]
        return sorted((int(number), int(total)) for number, total in lines)


def sums(numbers: int = NUMBERS) -> list[tuple[int, int]]:
    """Each number with the sum of those of its key up to it, which are an arithmetic series."""
    found = []
    for number in range(1, numbers + 1):
        first = number % KEYS or KEYS
        found.append((number, (first + number) * ((number - first) // KEYS + 1) // 2))
    return found


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_after_kill_9_every_line_is_there_once(program: Program) -> None:
    for options in ((), ("-s", "latest"), ("-s", "latest")):
        code, _ = program.interrupt(signal.SIGKILL, "-p", "4", *options)
        assert code == -signal.SIGKILL
    assert "restored from " in program.finish("-p", "4", "-s", "latest")
    assert program.written() == sums()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_told_to_end_is_resumed_at_another_parallelism(program: Program, how: signal.Signals) -> None:
    code, said = program.interrupt(how, "-p", "2")
    assert code == 0
    assert "stopping: a last checkpoint is taken" in said
    assert "job 'sums' was stopped; resume it with -s " in said
    program.finish("-p", "3", "-s", "latest")
    assert program.written() == sums()


@pytest.mark.slow
@pytest.mark.parametrize("other", ["spark", "resident"])
def test_each_engine_resumes_from_the_checkpoints_of_the_other(other: str, program: Program) -> None:
    assert program.interrupt(signal.SIGTERM, "-p", "2")[0] == 0
    program.engine = other
    assert program.interrupt(signal.SIGTERM, "-p", "2", "-s", "latest")[0] == 0
    program.engine = "local"
    program.finish("-p", "2", "-s", "latest")
    assert program.written() == sums()
