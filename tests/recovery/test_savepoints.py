"""Savepoints: what is in them, and that a job goes on from one as another version, elsewhere, wider, with another
backend."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import combinations
from typing import Any

import pytest

from tests.recovery.scenarios_savepoints import BACKENDS, MATRIX, PARALLELISM, Cell
from tests.recovery.test_failures import facts_of
from tests.recovery.upgrades import HALF, KEYS, VERSIONS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

Facts = dict[str, dict[str, Any]]


def test_the_matrix_has_every_pair_of_choices() -> None:
    cells = [asdict(cell) for cell in MATRIX]
    choices = {name: {cell[name] for cell in cells} for name in cells[0]}
    assert {name: len(values) for name, values in choices.items()} == {
        "before": len(BACKENDS),
        "after": len(BACKENDS),
        "format": 2,
        "parallelism": 4,
        "version": len(VERSIONS),
        "owner": 2,
        "place": 2,
    }
    for one, other in combinations(choices, 2):
        pairs = {(cell[one], cell[other]) for cell in cells}
        possible = len(choices[one]) * len(choices[other]) - ({one, other} == {"owner", "place"})
        assert len(pairs) == min(possible, len(cells)), f"{one} and {other}"


@pytest.mark.parametrize("cell", MATRIX, ids=str)
def test_a_job_goes_on_from_a_savepoint(cell: Cell, savepoints: Facts) -> None:
    facts = facts_of("savepoint_matrix", savepoints)["cells"][str(cell)]
    assert facts["failed"] == ""
    assert facts["differs"] == []
    assert facts["numbers"] == list(range(HALF)), "a list of operator state is split, and nothing is lost"
    assert facts["subtasks"] == cell.parallelism
    assert [len(union) for union in facts["unions"]] == [PARALLELISM], "everybody is shown the whole union"
    assert facts["left"] == (cell.owner == "user")


@pytest.mark.parametrize("format", ["canonical", "native"])
def test_after_its_first_checkpoint_a_job_does_without_the_savepoint(format: str, savepoints: Facts) -> None:
    facts = facts_of("original_deleted", savepoints)[format]
    assert facts == {"failed": "", "restarts": 1, "differs": [], "left": False}


def test_a_job_that_is_cancelled_with_a_savepoint_goes_on_from_it(savepoints: Facts) -> None:
    facts = facts_of("ways_to_end", savepoints)
    assert facts["cancel"]["status"] == "CANCELED"
    assert facts["cancel"]["in_default_directory"]
    assert facts["resumed"] == {"failed": "", "differs": []}


def test_a_drained_job_has_come_to_the_end_of_time(savepoints: Facts) -> None:
    facts = facts_of("ways_to_end", savepoints)
    assert facts["drain"]["status"] == "FINISHED"
    assert facts["drain"]["told"] == ["extra", "remember", "window"]
    assert facts["cancel"]["told"] == []


@pytest.mark.parametrize(("way", "note"), [("cancel", []), ("drain", ["ended"])])
def test_nothing_but_the_savepoint_is_left(way: str, note: list[str], savepoints: Facts) -> None:
    assert facts_of("ways_to_end", savepoints)[way]["retained"] == note, "a job that has finished says so"


def test_anybody_reads_a_canonical_savepoint(savepoints: Facts) -> None:
    facts = facts_of("canonical_files", savepoints)
    assert facts["problems"] == facts["hidden"] == []
    mine = {key: [number for number in range(HALF) if number % KEYS == key] for key in range(KEYS)}
    assert facts["list"] == [[key, numbers] for key, numbers in mine.items()]
    assert facts["map"] == [[key, {"odd" if key % 2 else "even": sum(mine[key])}] for key in mine]
    assert [(key, row["count"]) for key, row in facts["row"]] == [(key, len(mine[key])) for key in mine]
    assert facts["pickled"] == 0
    assert facts["numbers"] == list(range(HALF))
    assert facts["rules"] == [["factor", 7]]
    for folder in ("remember/living", "windows/window-contents", "seen/last", "scale/rules"):
        assert folder in facts["folders"]


WRONG = {
    "unknown path": "there is no checkpoint or savepoint at .*/nowhere: the path does not exist",
    "no snapshot": "directory is a directory and not a checkpoint or savepoint: it has no _metadata",
    "newer format": "newer/_metadata has format version 2, and this Beadline reads up to 1",
    "missing file": "broken can't be restored: .*the file is missing",
    "unclaimed": "extra",
    "legacy": "LEGACY leaves open who may delete the snapshot, so it is not supported: use NO_CLAIM",
    "parallelism": "200",
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_refused_in_a_sentence_and_nothing_changes(what: str, savepoints: Facts) -> None:
    facts = facts_of("bad_input", savepoints)
    assert facts[what]["error"]
    assert re.search(WRONG[what], facts[what]["error"])
    assert facts[what]["changed"] == []
