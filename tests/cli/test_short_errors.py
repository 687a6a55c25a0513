"""What a user sees of a job that fails: real programs, in processes of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

import beadline

FAILING = Path(__file__).parent / "failing.py"
OWN_SESSION = Path(__file__).parent / "own_session.py"
COMMAND = ("-m", "beadline.cli.main", "run")
DEFAULTS = ("WARNING: Using incubator", "Using Spark's default", "Setting ", "To adjust logging level")

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def environment(**more: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("BEADLINE_VERBOSE", "PYSPARK_PYTHON")}
    return {**clean, "PYTHONPATH": str(Path(beadline.__file__).parents[1]), "SPARK_LOCAL_IP": "127.0.0.1", **more}


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """The lines on standard error by case, while it ran and by who told its error."""
    done = run(str(FAILING))
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[str]] = {}
    for line in done.stderr.splitlines():
        if line.startswith("--- "):
            lines = found.setdefault(line[4:], [])
        else:
            lines.append(line)
    return found


STARTED = f"  at {FAILING}, line "
NOT_RESTARTED = "The job is not restarted: the restart strategy is 'none'"


@pytest.mark.parametrize("how", ["python", "command"])
@pytest.mark.parametrize(
    ("case", "kind", "expected"),
    [
        (
            "deep",
            "JobExecutionError",
            ["operator 'deep' (failing.py:53, subtask 0) failed at record 5: ValueError: bad value 5"],
        ),
        ("deep", "JobExecutionError", ["  … 19 more", "in other_helper: return", "in helper: raise", NOT_RESTARTED]),
        ("in_lambda", "JobExecutionError", ["operator 'divide'", "record 5", "in <lambda>", NOT_RESTARTED]),
        ("unpicklable", "SerializationError", ["'locking' can't be sent to the workers", "in open()"]),
        ("missing_import", "JobExecutionError", ["'importing'", "'not_there_at_all'", "add_python_file"]),
        ("missing_module", "EnvironmentSetupError", ["can't import 'ghost'", sys.executable, "PYSPARK_PYTHON"]),
        ("wrong_type", "JobExecutionError", ["operator 'typed'", "record 5", "declared type Long", NOT_RESTARTED]),
        ("dying", "JobExecutionError", ["step 1 failed 6 times", "worker exited", "more memory", NOT_RESTARTED]),
    ],
)
def test_an_error_is_told_in_ten_lines(
    told: dict[str, list[str]], case: str, kind: str, expected: list[str], how: str
) -> None:
    lines = told[f"{case} running"] + told[f"{case} {how}"]
    assert len(lines) <= 10, lines
    assert max(len(line) for line in lines) <= 450
    start = f"beadline.errors.{kind}: " if how == "python" else "error: "
    assert sum(line.startswith(start) for line in lines) == 1
    assert sum(line.startswith(STARTED) and line.endswith(": env.execute()") for line in lines) == 1
    assert not any("Traceback" in line or "org/apache" in line or "\tat " in line for line in lines)
    assert not any(beadline.__path__[0] in line for line in lines)
    for part in expected:
        assert any(part in line for line in lines), (part, lines)
    assert not any("attempt" in line for line in lines), "no restart would help, or there is none"


def test_what_user_code_writes_in_workers_is_shown(told: dict[str, list[str]]) -> None:
    assert "from a worker" in [line for lines in told.values() for line in lines]


def test_a_program_whose_error_nobody_catches() -> None:
    done = run(str(FAILING), "deep", BEADLINE_ENGINE="local")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) <= 10, done.stderr
    assert lines[-1].startswith(NOT_RESTARTED)
    assert any(line.endswith('in helper: raise ValueError(f"bad value {value}")') for line in lines)


# -- the same again and again


LOOPING = """
from beadline.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(500)
env.from_collection(["record " + str(n) + "x" * 400 for n in range(100)]).map(
    lambda text: 1 // (int(text[7:].rstrip("x")) - 50)
).name("divide").print()
env.execute()
"""


def test_a_record_that_fails_every_time_is_tried_less_and_less_often(tmp_path: Path) -> None:
    """With the default strategy; each restart is told in one line."""
    job = tmp_path / "job.py"
    job.write_text(LOOPING)
    lines: list[str] = []
    process = subprocess.Popen(
        [sys.executable, *COMMAND, str(job)],
        env=environment(BEADLINE_ENGINE="local"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if line.startswith("attempt 4 failed"):
                break
    finally:
        process.kill()
        process.communicate(timeout=60)
    # Where the job can be looked at is told as soon as that is known.
    first, *attempts = [line for line in lines if not line.startswith("dashboard: ")]
    assert first.startswith("job ")
    assert len(attempts) == 4, "".join(lines)
    failed = re.compile(r"operator 'divide' \(job.py:\d+, subtask 0\) failed at record 'record 50xxx")
    assert all(failed.search(line) for line in attempts)
    assert all("ZeroDivisionError" in line and len(line) < 600 for line in attempts)
    delays = [
        int(found[1]) for line in attempts if (found := re.search(r"goes on from the beginning in (\d+) ms", line))
    ]
    assert all(0.85 * 1000 * 1.5**n <= delay <= 1.15 * 1000 * 1.5**n for n, delay in enumerate(delays))
    assert [f"the same record has failed {n + 1} times" in line for n, line in enumerate(attempts)] == [False] + [
        True
    ] * 3
    assert [n for n, line in enumerate(attempts) if "beadline.poison.action=skip" in line] == [1]


# -- the workers' Python


def without_packages(folder: Path) -> tuple[str, str]:
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python"), r"it has no pyarrow"


def of_another_version(folder: Path) -> tuple[str, str]:
    for minor in range(8, 20):
        found = shutil.which(f"python3.{minor}")
        if minor != sys.version_info.minor and found and _runs(found):
            return found, "it must be of the driver's minor version"
    pytest.skip("there is no other Python on this machine")


def that_is_not_there(folder: Path) -> tuple[str, str]:
    return str(folder / "python"), "it can't be started"


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("make", [without_packages, of_another_version, that_is_not_there])
def test_workers_with_the_wrong_python_end_the_job_at_once(
    make: Callable[[Path], tuple[str, str]], tmp_path: Path
) -> None:
    """On a session of the user's own, with checkpoints, so that the job would restart for ever."""
    python, problem = make(tmp_path / "other")
    done = run(str(OWN_SESSION), PYSPARK_PYTHON=python)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith(DEFAULTS) and " WARN " not in line]
    assert len(lines) == 5, done.stderr
    assert lines[0].startswith("beadline.errors.EnvironmentSetupError: the workers' Python is not fit for the job: ")
    assert problem in lines[0]
    assert lines[1].startswith(f"  workers: {python}")
    assert lines[2] == f"  driver: {sys.executable} (Python {sys.version.partition(' ')[0]})"
    assert f"PYSPARK_PYTHON={sys.executable}" in lines[3]
    assert "spark.pyspark.python" in lines[3]
