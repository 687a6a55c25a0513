"""What ``beadline doctor`` says on machines where something is wrong."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEADLINE_STATE_DIR", str(tmp_path / "state"))
    for variable in ("BEADLINE_ENGINE", "SPARK_HOME", "SPARK_REMOTE", "PYSPARK_PYTHON"):
        monkeypatch.delenv(variable, raising=False)


def finding(ask: Command, what: str, *options: str) -> tuple[dict[str, str], int]:
    done = ask("doctor", "--json", *options)
    found = [each for each in json.loads(done.stdout)["findings"] if each["what"] == what]
    assert len(found) == 1, done.stdout
    return found[0], done.returncode


def python_of_version(version: str, folder: Path) -> Path:
    """A program that answers as a Python of that version does."""
    other = folder / "python"
    other.write_text(f"""#!/bin/sh\necho '["/usr/bin/python", "{version}", []]'\n""")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    return other


def test_without_java(ask: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java, code = finding(ask, "Java")
    assert (java["status"], code) == ("problem", 1)
    assert java["found"] == "Spark needs Java, and there is no java on the PATH"
    assert "Install a JDK or JRE 17 or newer" in java["advice"]
    assert "--engine local" in java["advice"]
    java, code = finding(ask, "Java", "--engine", "local")
    assert (java["status"], code) == ("ok", 0)


def test_with_the_wrong_python_for_workers(ask: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = python_of_version("3.8.19", tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    python, code = finding(ask, "workers' Python")
    assert (python["status"], code) == ("problem", 1)
    assert f"{other} (set by PYSPARK_PYTHON) is Python 3.8.19" in python["found"]
    assert python["advice"].startswith("Set PYSPARK_PYTHON to ")

    python, code = finding(ask, "workers' Python", "-D", "python.executable=/nowhere/python")
    assert (python["status"], code) == ("problem", 1)
    assert python["found"] == "/nowhere/python (set by python.executable): there is no such program"


def test_with_a_read_only_checkpoint_directory(ask: Command, tmp_path: Path) -> None:
    folder = tmp_path / "check points"
    folder.mkdir()
    folder.chmod(0o500)
    if os.geteuid() == 0:
        folder = Path("/proc/sys")  # nothing can be made there, not even by root
    place, code = finding(ask, "checkpoints", "--engine", "local", "-D", f"state.checkpoints.dir={folder}")
    assert (place["status"], code) == ("problem", 1)
    assert f"{folder} can't be written" in place["found"]
    assert f"Make {folder} writable for this user" in place["advice"]


def test_a_machine_where_everything_is_wrong(
    beadline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a process of its own, as a user runs it: no Java, a Python of another version, a file instead of a folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", str(python_of_version("3.8.19", tmp_path)))
    (tmp_path / "file").touch()

    done = beadline("doctor", "-D", f"state.checkpoints.dir={tmp_path}/file/checkpoints")
    assert (done.returncode, done.stderr) == (1, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    wrong = {lines[at]: lines[at + 1] for at, line in enumerate(lines) if line.startswith("✗")}
    java, python, place = wrong
    assert "there is no java on the PATH" in java
    assert wrong[java].startswith("→ Install a JDK or JRE 17 or newer")
    assert "is Python 3.8.19; it must be of the driver's minor version" in python
    assert wrong[python] == f"→ Set PYSPARK_PYTHON to {sys.executable}, or leave it out."
    assert f"{tmp_path}/file/checkpoints can't be written: {tmp_path}/file is a file" in place
    assert wrong[place] == f"→ Move {tmp_path}/file away, or choose another directory."
    assert lines[-1] == "3 problems to solve before a job can run."


def test_where_all_is_well_nothing_is_left_behind(ask: Command, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    options = ["-D", f"state.checkpoints.dir={there}", "-D", f"state.savepoints.dir={tmp_path / 'not yet'}"]
    done = ask("doctor", "--engine", "local", *options)
    assert done.returncode == 0, done.stdout
    assert "Jobs can run here, on the engine 'local'." in done.stdout
    assert list(there.iterdir()) == []
    assert not (tmp_path / "not yet").exists()


def test_options_that_are_wrong(ask: Command, tmp_path: Path) -> None:
    (tmp_path / "beadline.yaml").write_text("execution.checkpointing.mode: TWICE\n")
    options, code = finding(ask, "options", "--engine", "local")
    assert (options["status"], code) == ("problem", 1)
    assert "'TWICE' is none of EXACTLY_ONCE, AT_LEAST_ONCE" in options["found"]
    assert str(tmp_path / "beadline.yaml") in options["advice"]
