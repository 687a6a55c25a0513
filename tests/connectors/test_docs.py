"""The programs in the guides to connectors run as they stand, one after the other, on the project's own servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "connectors").glob("*.md"))
#: Where the guides say that the broker is.
BROKER = "localhost:9092"
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_its_programs_run(guide: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = guide.read_text()
    environment = {**os.environ, "BEADLINE_ENGINE": "local", "PYTHONPATH": str(ROOT)}
    if BROKER in text:
        text = text.replace(BROKER, request.getfixturevalue("kafka").address)
    if "BEADLINE_POSTGRES_URL" in text:
        environment["BEADLINE_POSTGRES_URL"] = request.getfixturevalue("postgres").url
    programs = _PROGRAM.findall(text)
    assert programs, f"{guide.name} has no program"
    for number, program in enumerate(programs, start=1):
        script = tmp_path / f"program_{number}.py"
        script.write_text(program)
        done = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"program {number} of {guide.name}:\n{program}\n{done.stderr[-3000:]}"
