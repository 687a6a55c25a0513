"""What ``beadline run`` shows of a job: a line every so often, or a live view on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Command

JOB = """
    import sys
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_sequence(1, int(sys.argv[1])).filter(lambda number: number == 1).print()
    env.execute("numbers")
"""
SLOW = ["-D", "beadline.source.max-records-per-second=500", "-D", "beadline.step.target=200 ms"]


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("BEADLINE_PROGRESS_SECONDS", "1")


def test_a_line_comes_every_so_often(beadline: Command, write) -> None:
    write("job.py", JOB)
    done = beadline("run", *SLOW, "job.py", "2500")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "job 'numbers' after " in done.stderr
    assert " records/s, " in done.stderr
    assert done.stderr.count("dashboard: http://127.0.0.1:") == 1
    assert "token" not in done.stderr


def test_quiet(beadline: Command, write) -> None:
    write("job.py", JOB)
    done = beadline("run", "-q", *SLOW, "job.py", "1500")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_short_job_makes_no_noise(beadline: Command, write) -> None:
    write("job.py", JOB)
    done = beadline("run", "job.py", "10")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "guarantee" in done.stderr


class Terminal:
    """A real one, of the system: a command runs in it, keys are pressed, and what it has shown can be read."""

    def __init__(self, *args: str, width: int = 110) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
        self._before = termios.tcgetattr(self._theirs)
        self._shown = b""
        started = (
            "import fcntl, os, signal, sys, termios\n"
            "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"  # whoever runs the tests in the background ignores it
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"  # so that Ctrl-C reaches it
            "os.execv(sys.executable, [sys.executable, '-m', 'beadline.cli.main', *sys.argv[1:]])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", started, *args],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )

    def wait_for(self, pattern: str, seconds: float = 30.0) -> str:
        """What it has shown since it began, once that has the pattern."""
        deadline = time.monotonic() + seconds
        while re.search(pattern, self.text) is None:
            assert time.monotonic() < deadline, f"no {pattern} in: {self.text}"
            if select.select([self._ours], [], [], 0.05)[0]:
                self._shown += os.read(self._ours, 1 << 16)
        return self.text

    @property
    def text(self) -> str:
        """Without colours; where it moves the cursor is left in."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self._shown.decode(errors="replace")).replace("\r\n", "\n")

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    @property
    def is_sane(self) -> bool:
        """It echoes and reads lines as before, and its cursor can be seen."""
        return termios.tcgetattr(self._theirs) == self._before and b"\x1b[?25l" not in self._shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def test_the_view_on_a_terminal_and_ctrl_c(write, tmp_path: Path) -> None:
    """The view is drawn again in its place. Ctrl-C ends the job with a last checkpoint, and leaves a clean terminal."""
    script = write("job.py", JOB)
    options = ["-D", "execution.checkpointing.interval=200 ms", "-D", f"state.checkpoints.dir={tmp_path / 'cp'}"]
    terminal = Terminal("run", *SLOW, *options, str(script), "100000000")
    try:
        terminal.wait_for(r"dashboard: http://127\.0\.0\.1:\d+/#token=[\w-]{32}\n")
        terminal.wait_for(r"── numbers [0-9a-f]{8}… RUNNING .*\n   step [\d,]+ +records [\d,]+ +records/s \d")
        terminal.wait_for(r"\n   steps [▁▂▃▄▅▆▇█]+\n   aligned checkpoint \d+ ")
        terminal.wait_for(r"checkpoint \d+ completed in .*\n(.*\n)*\x1b\[\d+A\r\x1b\[J── numbers")

        terminal.press(b"\x03")
        terminal.wait_for("stopping: a last checkpoint is taken; press Ctrl-C again to stop without it\n")
        shown = terminal.wait_for(rf"job 'numbers' was stopped; resume it with -s {tmp_path}/cp/\S+ \(or -s latest\)\n")
        assert terminal.process.wait(20) == 0
        last_words = shown.rpartition("\x1b[J")[2]
        assert "── numbers" not in last_words, "nothing of the view is left"
        assert re.search(r"^job 'numbers' after .*: SUSPENDED, step [\d,]+, .* checkpoints$", last_words, re.MULTILINE)
        assert terminal.is_sane
    finally:
        terminal.close()


HOSTILE = """
    import sys
    from beadline.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    records = env.from_collection(["\\x1b]0;title\\x07\\x1b[2J\\rall is well\\u202e\\x9b31m"])
    records.print()

    def refuse(record):
        print("\\x1b[32mgreen\\x1b[0m")
        raise ValueError("bad value " + record)

    if "refuse" in sys.argv:
        records.map(refuse).name("refusing\\x1b[7m").print()
    env.execute("job\\x1b]0;name\\x07")
"""
SHOWN = r"\x1b]0;title\x07\x1b[2J\rall is well\u202e\x9b31m"


def test_records_and_names_can_not_command_the_terminal(write) -> None:
    script = write("job.py", HOSTILE)
    terminal = Terminal("run", str(script))
    try:
        shown = terminal.wait_for(r"all is well.*\n")
        assert terminal.process.wait(20) == 0
        assert f"{SHOWN}\n" in shown
        assert not any(letter in shown for letter in "\x1b\x07\x9b\u202e"), repr(shown)
    finally:
        terminal.close()


def test_errors_can_not_command_the_terminal_and_the_program_s_own_text_is_left_alone(write) -> None:
    script = write("job.py", HOSTILE)
    terminal = Terminal("run", str(script), "refuse")
    try:
        shown = terminal.wait_for(r"error: .*\n")
        assert terminal.process.wait(20) == 1
        assert f"bad value {SHOWN}" in shown
        assert r"refusing\x1b[7m" in shown
        raw = terminal._shown
        assert b"\x1b[32mgreen\x1b[0m" in raw, "what a function prints is the program's own"
        assert b"\x1b]0;" not in raw
        assert b"\x1b[2J" not in raw
        assert "\u202e" not in shown
    finally:
        terminal.close()


def test_programs_get_the_records_as_they_are(beadline: Command, write) -> None:
    write("job.py", HOSTILE)
    done = beadline("run", "job.py")
    assert done.stdout == "\x1b]0;title\x07\x1b[2J\nall is well\u202e\x9b31m\n", "\\r is a line feed in text mode"
    assert r"job\x1b]0;name\x07" in done.stderr
