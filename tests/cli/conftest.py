from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import beadline as package

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def beadline(tmp_path: Path) -> Command:
    """Run the ``beadline`` command in its own process, in ``tmp_path``: a script takes over the process it runs in."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "beadline.cli.main", *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file with the given text below ``tmp_path``."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a ``beadline`` command in this process, in ``tmp_path``: for commands that run no program of a user."""
    from typer.testing import CliRunner

    from beadline.cli.main import app

    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        result = CliRunner().invoke(app, args)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(args, result.exit_code, result.stdout, result.stderr)

    return run
