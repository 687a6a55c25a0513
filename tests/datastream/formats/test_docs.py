"""The programs of docs/connectors/formats.md run, each by itself, and find what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "connectors" / "formats.md"
TEXT = GUIDE.read_text()
PROGRAMS = [
    pytest.param("\n" * TEXT[: match.start(1)].count("\n") + match[1], id=str(number))
    for number, match in enumerate(re.finditer(r"```python\n(.*?)```", TEXT, re.DOTALL))
]


@pytest.mark.usefixtures("local_engine")
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "assert" in program
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
