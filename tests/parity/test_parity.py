"""The programs of this folder print under Beadline what they printed under PyFlink, order and subtask numbers aside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from beadline import pyflink_alias
from beadline.cli.script import run_script

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
EXAMPLES = sorted((HERE / "expected" / "examples").rglob("*.txt"))

sys.path.insert(0, str(HERE))

from fetch_examples import fetch_examples  # noqa: E402
from normalise import normalise  # noqa: E402


@pytest.fixture(autouse=True)
def _restored_process() -> Iterator[None]:
    """A script takes over __main__, the arguments and the path; the next one must not see that."""
    kept = sys.modules["__main__"], sys.argv[:], sys.path[:]
    pyflink_alias.install()
    yield
    pyflink_alias.uninstall()
    sys.modules["__main__"], sys.argv[:], sys.path[:] = kept


def check(script: Path, expected: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run_script(script, [])
    seen = normalise(capsys.readouterr().out)
    wanted = [line for line in expected.read_text(encoding="utf-8").split("\n") if line]
    difference = list(unified_diff(wanted, seen, "PyFlink", "Beadline", lineterm="", n=0))
    assert not difference, "\n" + "\n".join(difference)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_prints_what_it_prints_under_pyflink(program: Path, spark: Any, capsys: Any) -> None:
    check(program, HERE / "expected" / f"{program.stem}.txt", capsys)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of PyFlink's own distribution, fetched by package name."""
    return fetch_examples()


@pytest.mark.parametrize("expected", EXAMPLES, ids=lambda path: path.stem)
def test_pyflink_example_runs_unmodified(expected: Path, examples: Path, spark: Any, capsys: Any) -> None:
    name = expected.relative_to(HERE / "expected" / "examples").with_suffix(".py")
    check(examples / name, expected, capsys)
