"""The programs of this folder print under Beadline what they printed under PyFlink, order and subtask numbers aside:
on Spark, in resident workers, and in one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from beadline import pyflink_alias
from beadline.cli.script import run_script
from beadline.errors import UnsupportedFeatureError
from beadline.master import engines

HERE = Path(__file__).parent
EXAMPLES = sorted((HERE / "expected" / "examples").rglob("*.txt"))

sys.path.insert(0, str(HERE))

from fetch_examples import fetch_examples  # noqa: E402
from normalise import normalise  # noqa: E402
from programs_of import find_programs  # noqa: E402

PROGRAMS = find_programs(HERE / "programs")

# What an engine can't do: archives need a working directory of the workers' own.
REFUSED = {(engines.LOCAL, "python_archives"): r"add_python_archive.* the local engine runs functions in this process"}


@pytest.fixture(params=engines.ALL)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that programs run on."""
    name: str = request.param
    monkeypatch.setenv(engines.VARIABLE, name)
    if name in engines.ON_SPARK:
        request.getfixturevalue("spark")
    return name


@pytest.fixture(autouse=True)
def _restored_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A script takes over __main__, the arguments and the path; the next one must not see that."""
    kept = sys.modules["__main__"], sys.argv[:], sys.path[:]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pyflink_alias.install()
    yield
    pyflink_alias.uninstall()
    sys.modules["__main__"], sys.argv[:], sys.path[:] = kept
    for name in [name for name, module in list(sys.modules.items()) if _is_of_program(module)]:
        del sys.modules[name]


def _is_of_program(module: Any) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return any(place.startswith(str(HERE / "programs")) for place in places)


def check(script: Path, expected: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run_script(script, [])
    seen = normalise(capsys.readouterr().out)
    wanted = [line for line in expected.read_text(encoding="utf-8").split("\n") if line]
    difference = list(unified_diff(wanted, seen, "PyFlink", "Beadline", lineterm="", n=0))
    assert not difference, "\n" + "\n".join(difference)


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_program_prints_what_it_prints_under_pyflink(program: str, engine: str, capsys: Any) -> None:
    if (engine, program) in REFUSED:
        with pytest.raises(UnsupportedFeatureError, match=REFUSED[engine, program]):
            run_script(PROGRAMS[program], [])
        return
    check(PROGRAMS[program], HERE / "expected" / f"{program}.txt", capsys)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of PyFlink's own distribution, fetched by package name."""
    return fetch_examples()


@pytest.mark.parametrize("expected", EXAMPLES, ids=lambda path: path.stem)
def test_pyflink_example_runs_unmodified(expected: Path, examples: Path, engine: str, capsys: Any) -> None:
    name = expected.relative_to(HERE / "expected" / "examples").with_suffix(".py")
    check(examples / name, expected, capsys)
