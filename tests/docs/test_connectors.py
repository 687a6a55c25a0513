"""The programs in the guides to connectors run as they stand, one after the other, on the project's own servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.kinesis.streams import Service, running_service

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "connectors").glob("*.md"))
#: Where the guides say that the broker is.
BROKER = "localhost:9092"
_PROGRAM = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def kinesis_service() -> Iterator[Service]:
    with running_service() as service:
        yield service


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_its_programs_run(guide: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = guide.read_text()
    environment = {**os.environ, "BEADLINE_ENGINE": "local", "PYTHONPATH": str(ROOT)}
    if BROKER in text:
        text = text.replace(BROKER, request.getfixturevalue("kafka").address)
    if "BEADLINE_POSTGRES_URL" in text:
        environment["BEADLINE_POSTGRES_URL"] = request.getfixturevalue("postgres").url
    if "BEADLINE_KINESIS_URL" in text:
        service = request.getfixturevalue("kinesis_service")
        service.make_stream("clicks")
        service.put("clicks", ["a", "b"])
        service.make_stream("pages")
        login = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
        environment |= {"BEADLINE_KINESIS_URL": service.url, **login}
    programs = _PROGRAM.findall(text)
    assert programs, f"{guide.name} has no program"
    for number, program in enumerate(programs, start=1):
        script = tmp_path / f"program_{number}.py"
        script.write_text(program)
        done = subprocess.run(
            [sys.executable, script.name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, f"program {number} of {guide.name}:\n{program}\n{done.stderr[-3000:]}"
