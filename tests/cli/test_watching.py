"""What ``beadline run`` shows of a job off a terminal."""

from __future__ import annotations

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
