"""The examples of docs/testing.md do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import beadline.testing
from beadline.datastream import StreamExecutionEnvironment

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
TEXT = GUIDE.read_text()


def blocks() -> list[tuple[int, str]]:
    """The examples, each with the line it starts at."""
    found = re.finditer(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return [(TEXT[: match.start(1)].count("\n"), match[1]) for match in found]


def run(wanted: bool) -> int:
    """Run the examples in order, in one namespace; those that make whole jobs, or the others."""
    names: dict[str, Any] = {"__name__": "guide"}
    chosen = [(line, code) for line, code in blocks() if ("StreamExecutionEnvironment" in code) == wanted]
    for line, code in chosen:
        exec(compile("\n" * line + code, str(GUIDE), "exec"), names)
    return len(chosen)


def test_the_examples_without_spark() -> None:
    assert run(wanted=False) == 6


def test_whole_jobs_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEADLINE_ENGINE", "local")
    assert run(wanted=True) == 2


@pytest.mark.spark
def test_whole_jobs_on_spark(spark: Any) -> None:
    assert run(wanted=True) == 2


def test_every_tool_is_explained() -> None:
    for name in beadline.testing.__all__:
        assert name in TEXT or name == "TestCrash", name
    for name in set(re.findall(r"`(\w+)\(", TEXT)):
        owners = (
            beadline.testing,
            beadline.testing.KeyedHarness,
            beadline.testing.VerifyingSink,
            StreamExecutionEnvironment,
        )
        assert any(hasattr(owner, name) for owner in owners), name
