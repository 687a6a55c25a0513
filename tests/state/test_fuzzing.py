"""Inputs that nobody wrote are refused with a sentence or read; see :mod:`tests.state.fuzzing`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.nightly import NIGHTLY
from tests.state.fuzzing import fuzz

COUNT = 1_000_000 if NIGHTLY else 600


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600 if NIGHTLY else 300)
def test_no_input_does_more_than_be_read(pytestconfig: pytest.Config) -> None:
    """In a process of its own: its children are forked, and this one has threads."""
    command = [sys.executable, "-m", "tests.state.fuzzing", str(COUNT)]
    ended = subprocess.run(
        command, cwd=pytestconfig.rootpath, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-5000:]
    assert f"{COUNT} inputs" in ended.stdout


def test_the_fuzzer_finds_what_an_unpickler_without_a_look_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would prove nothing."""
    from beadline.state import codec
    from beadline.state.pickles import Findings

    monkeypatch.setattr(codec, "check_pickle", lambda data: Findings())
    _, _, wrong = fuzz(seed=1, count=4000, enough=1)
    assert wrong
