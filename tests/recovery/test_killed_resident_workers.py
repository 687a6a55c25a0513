"""Resident workers are killed from outside at random moments, one or all, and every line is there once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.engine.jobs import parent_of
from tests.nightly import NIGHTLY
from tests.recovery.test_local_engine import Program, sums

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200 if NIGHTLY else 300)]

KILLS = 60 if NIGHTLY else 3


def children(process: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and parent_of(int(name)) == process:
                found.append(int(name))
        except (OSError, StopIteration):  # it has ended
            continue
    return found


def python_workers(driver: int) -> list[int]:
    """The driver's child is the JVM, the JVM's child is the daemon that forks the workers."""
    return [worker for jvm in children(driver) for daemon in children(jvm) for worker in children(daemon)]


def test_every_line_is_there_once(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    program = Program(tmp_path)
    program.engine = "resident"
    program.numbers = 12_000 * KILLS
    process = program.start("-p", "2")
    killed = 0
    try:
        for _ in range(KILLS):
            program.wait_for_checkpoint(process, program.checkpoints())
            time.sleep(moments.uniform(0, 0.3))
            workers = python_workers(process.pid)
            for worker in workers if moments.random() < 0.3 else moments.sample(workers, min(1, len(workers))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    killed += 1
        _, said = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert killed >= KILLS // 2, f"seed {seed}"
    assert program.written() == sums(program.numbers), f"seed {seed}"
