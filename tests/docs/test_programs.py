"""Every Python block in the documentation runs, and does what its assertions say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks, pages, program

# Pages whose programs are run by other tests: they need servers, or Spark.
ELSEWHERE = {
    "connectors": "tests/docs/test_connectors.py",
    "state-processor.md": "tests/state_processor/test_on_spark.py",
    "testing.md": "tests/testing/test_docs.py",
}
MOST_NOT_RUN = 3


def is_elsewhere(page: Path) -> bool:
    return page.is_relative_to(DOCS) and page.relative_to(DOCS).parts[0] in ELSEWHERE


PAGES = [page for page in pages() if page.exists() and blocks(page.read_text()) and not is_elsewhere(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_blocks_run_in_order(page: Path, tmp_path: Path) -> None:
    code = program(page.read_text()).replace("/data/", f"{tmp_path}/data/")
    script = tmp_path / "page.py"
    script.write_text(code)
    environment = {**os.environ, "BEADLINE_ENGINE": "local", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )

    assert done.returncode == 0, f"{page}:\n{done.stderr[-3000:]}"


def test_few_blocks_are_not_run() -> None:
    left_out = [
        (page.name, block.reason)
        for page in pages()
        if page.exists()
        for block in blocks(page.read_text())
        if block.reason
    ]

    assert all(reason for _, reason in left_out)
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_other_tests_run_the_rest() -> None:
    for where, test in ELSEWHERE.items():
        assert (DOCS / where).exists()
        assert (ROOT / test).exists()


def test_comments_are_read_as_described() -> None:
    text = "a\n<!-- given:\nx = 1\n-->\n```python\ny = x\n```\n<!-- not run: no server -->\n```python\nboom()\n```\n"

    assert [(block.line, block.reason) for block in blocks(text)] == [(2, None), (6, None), (10, "no server")]
    assert program(text) == "\nx = 1\n\n\n\ny = x\n"
