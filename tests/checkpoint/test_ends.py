"""The table of ends, and the one that users read."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.checkpoint.ends import End, Fate
from beadline.checkpoint.settings import Retention

DOCS = Path(__file__).parents[2] / "docs" / "checkpoints.md"


def documented() -> list[list[str]]:
    """The rows of the table, without its head."""
    text = DOCS.read_text().partition("| what ended the job |")[2].partition("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def head() -> list[str]:
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith("| what ended the job |"))
    return [cell.strip().partition(" (default)")[0].strip("`") for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("end", End)
def test_the_docs_say_what_holds(end: End) -> None:
    what, status, *cells, how = documented()[list(End).index(end)]
    assert status == end.status.name, what
    names = head()[2:5]
    assert names == [retention.name for retention in Retention]
    for name, cell in zip(names, cells, strict=True):
        keeps = Retention[name].keeps(end)
        expected = "untouched" if end.checkpoints is Fate.UNTOUCHED else "kept" if keeps else "deleted"
        assert cell == expected, (what, name)
    if "kept" in cells:
        assert "-s latest" in how


def test_a_killed_driver_is_documented_too() -> None:
    what, _, *cells, _ = documented()[len(End)]
    assert "kill -9" in what
    assert cells == ["kept"] * len(Retention)
    assert len(documented()) == len(End) + 1


@pytest.mark.parametrize("end", [End.SUSPENDED, End.ENGINE_LOST])
def test_no_option_deletes_what_something_outside_the_program_ended(end: End) -> None:
    assert all(retention.keeps(end) for retention in Retention)
