"""The whole playground, with real processes that are killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import beadline as package

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
    assert "was run again from the same state" in text
    wait_until_all_gone(tmp_path)
