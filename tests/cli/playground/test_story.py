"""The whole playground, with real processes that are killed for real."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from rich.console import Console

import beadline as package
from beadline.cli.playground import story
from beadline.cli.playground.command import play
from beadline.cli.playground.driver import Driver

ROOT = Path(package.__file__).parents[1]


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """``beadline playground`` in its own process, with ``tmp_path`` for its folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    environment["BEADLINE_STATE_DIR"] = str(tmp_path / "state")
    command = [sys.executable, "-m", "beadline.cli.main", "playground", "--no-open", *options]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Who runs the tests in the background ignores Ctrl-C, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def left_over(tmp_path: Path) -> list[str]:
    """Processes that still work in the folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if any(str(tmp_path) in word for word in words):
            found.append(" ".join(words))
    return found


def wait_until_all_gone(tmp_path: Path) -> None:
    deadline = time.monotonic() + 20
    while left_over(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_over(tmp_path) == []
    assert list(tmp_path.glob("beadline-playground-*")) == []


@pytest.mark.slow
def test_it_comes_to_its_verdict_without_java(tmp_path):
    process = start(tmp_path, "--engine", "local", "--windows", "1")
    text, _ = process.communicate(timeout=120)

    assert process.returncode == 0, text
    assert "✓" in text.splitlines()[-1]
    assert "kill -9" in text
    assert text.count("dashboard: http://127.0.0.1:") == 1  # it stays where it is
    # The state of the upgraded program: one that changed, one that is new.
    assert "ROW<clicks LONG> → value of ROW<clicks LONG, windows LONG>" in text
    assert "its state is restored, migrated, new" in text
    wait_until_all_gone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_when_it_is_ended_nothing_stays(tmp_path, number):
    process = start(tmp_path, "--engine", "local", "--windows", "1")
    assert process.stdout is not None
    for line in process.stdout:
        if "clicks on each page" in line:
            break

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    wait_until_all_gone(tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_on_spark_the_workers_are_killed_too(tmp_path):
    process = start(tmp_path, "--windows", "1", "--no-upgrade")
    text, _ = process.communicate(timeout=280)

    assert process.returncode == 0, text
    assert "✓" in text.splitlines()[-1]
    assert "workers are gone" in text
    assert "was run again from the same state" in text or "gave the tasks of the step" in text
    wait_until_all_gone(tmp_path)


class IdleWorkers(Driver):
    """A driver whose workers are never killed: processes that it does not need die in their place."""

    def freeze_workers(self, pids: Sequence[int]) -> list[int]:
        idle = psutil.Popen(["sleep", "600"])
        self._family[idle.pid] = idle
        return [idle.pid]


@pytest.mark.slow
@pytest.mark.spark
def test_kills_that_hit_no_step_are_no_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(story, "Driver", IdleWorkers)
    # So long that on the slowest machine a step ends meanwhile.
    monkeypatch.setattr(story, "_STUCK_SECONDS", 60.0)
    out = io.StringIO()

    code = play(Console(file=out), "spark", kafka=False, stay=False, upgrade=False, windows=1, open_browser=False)

    text = out.getvalue()
    assert code == 0, text
    assert text.count("workers are gone") == 3
    assert "no step was in progress" in text
    assert "0 steps run again" in text
    assert "✓" in text.splitlines()[-1]


@pytest.mark.slow
def test_workers_that_were_frozen_die_with_the_playground(tmp_path):
    """It may be killed itself before it has killed them."""
    script = """
        import os, sys, time
        import psutil
        from pathlib import Path
        from beadline.cli.playground.driver import Driver
        driver = Driver(["--version"], Path(sys.argv[1]), os.environ)
        worker = psutil.Popen(["sleep", "600"])
        driver._family[worker.pid] = worker
        print(*driver.freeze_workers([worker.pid]), flush=True)
        time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        worker = psutil.Process(int(process.stdout.readline()))
    assert worker.status() == psutil.STATUS_STOPPED

    process.kill()
    process.wait()

    psutil.wait_procs([worker], timeout=30)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
