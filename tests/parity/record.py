"""Writes the expected lines of every parity program, from a run with the real PyFlink.

Run it with a Python that has ``apache-flink`` installed::

    python tests/parity/record.py                     # all programs and examples
    python tests/parity/record.py map_state lifecycle # some of them
    python tests/parity/record.py --check             # compare with what is recorded, write nothing

``--check`` is how to see that a program's lines don't depend on scheduling: run it a few times.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fetch_examples import EXAMPLES
from normalise import normalise
from programs_of import find_programs

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
EXPECTED = HERE / "expected"
FLINK_VERSION = "2.3.0"

# Some examples log to stdout, and then so does PyFlink's worker. These lines are about PyFlink, not the program.
WORKER_LOG = ("No module named google.", "PYFLINK_CYTHON_ENABLED:", "Using Any for unsupported type:")


@dataclass(frozen=True)
class Program:
    """A script to run, and the file that holds its expected lines."""

    name: str
    script: Path
    expected: Path


@dataclass(frozen=True)
class Outcome:
    """What came of one program: its normalised lines, or why there are none."""

    program: Program
    seconds: float
    lines: list[str]
    problem: str | None = None


def own_programs() -> list[Program]:
    return [Program(name, script, EXPECTED / f"{name}.txt") for name, script in sorted(find_programs(PROGRAMS).items())]


def package_examples() -> list[Program]:
    """The examples that PyFlink brings along, where they are installed."""
    spec = importlib.util.find_spec("pyflink")
    if spec is None or spec.origin is None:
        raise SystemExit("pyflink is not installed for this Python; run this with one that has apache-flink.")
    folder = Path(spec.origin).parent / "examples" / "datastream"
    return [
        Program(f"examples/{name}", folder / f"{name}.py", EXPECTED / "examples" / f"{name}.txt") for name in EXAMPLES
    ]


def program_environment() -> dict[str, str]:
    """Flink starts its workers as ``python`` from the PATH, so this Python has to be the first one there."""
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    environment.update(TZ="UTC", LC_ALL="C.UTF-8", PYTHONIOENCODING="utf-8")
    return environment


def run(program: Program, time_limit: float) -> Outcome:
    """Runs one program in a directory of its own and ends everything it started if it takes too long."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, str(program.script)],
            cwd=directory,
            env=program_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=time_limit)
            problem = f"exit status {process.returncode}" if process.returncode else None
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            problem = f"not finished after {time_limit:.0f} s"
        if problem:
            errors.seek(0)
            problem += "\n" + root_causes(errors.read().decode("utf-8", "replace"))
    lines = [line for line in normalise(output.decode("utf-8")) if not line.startswith(WORKER_LOG)]
    if not problem and not lines:
        problem = "it printed nothing"
    return Outcome(program, time.monotonic() - started, lines, problem)


def root_causes(errors: str) -> str:
    """The end of stderr without the Java frames, which bury the Python traceback."""
    lines = [line for line in errors.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return "\n".join(f"    {line}" for line in lines[-25:])


def compare(outcome: Outcome) -> str | None:
    """How the lines differ from the recorded ones, or None."""
    expected_file = outcome.program.expected
    if not expected_file.exists():
        return f"nothing is recorded in {expected_file}"
    expected = expected_file.read_text(encoding="utf-8").split("\n")[:-1]
    if expected == outcome.lines:
        return None
    return "\n".join(difflib.unified_diff(expected, outcome.lines, "recorded", "this run", lineterm="", n=0))


def write(outcome: Outcome) -> None:
    outcome.program.expected.parent.mkdir(parents=True, exist_ok=True)
    outcome.program.expected.write_text("".join(f"{line}\n" for line in outcome.lines), encoding="utf-8")


def remove_orphans(programs: list[Program]) -> None:
    """Deletes expected files whose program is gone."""
    known = {program.expected for program in programs}
    for file in EXPECTED.rglob("*.txt"):
        if file not in known:
            file.unlink()
            print(f"removed  {file.relative_to(HERE)}: there is no such program")


def check_flink_version() -> None:
    try:
        found = version("apache-flink")
    except PackageNotFoundError as error:
        raise SystemExit(
            f"apache-flink is not installed for {sys.executable}; install apache-flink=={FLINK_VERSION}."
        ) from error
    if found != FLINK_VERSION:
        raise SystemExit(f"The expected lines are those of PyFlink {FLINK_VERSION}, but {found} is installed here.")


def choose(programs: list[Program], names: list[str]) -> list[Program]:
    unknown = sorted(set(names) - {program.name for program in programs})
    if unknown:
        raise SystemExit(f"No such program: {', '.join(unknown)}. There are: {', '.join(p.name for p in programs)}.")
    return [program for program in programs if not names or program.name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help="programs to run, as 'map_state' or 'examples/word_count'; default: all"
    )
    parser.add_argument("--check", action="store_true", help="compare with the recorded lines and write nothing")
    parser.add_argument("--time-limit", type=float, default=180.0, help="seconds that one program may take")
    arguments = parser.parse_args()
    check_flink_version()
    everything = own_programs() + package_examples()
    failed = 0
    for program in choose(everything, arguments.names):
        outcome = run(program, arguments.time_limit)
        problem = outcome.problem
        if problem is None and arguments.check:
            problem = compare(outcome)
        if problem is None and not arguments.check:
            write(outcome)
        failed += problem is not None
        word = "FAILED  " if problem else "same    " if arguments.check else "recorded"
        print(f"{word} {program.name:32} {outcome.seconds:6.1f} s {len(outcome.lines):4} lines", flush=True)
        if problem:
            print(problem, flush=True)
    if not arguments.names and not arguments.check:
        remove_orphans(everything)
    print(f"{failed} failed" if failed else "all well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
