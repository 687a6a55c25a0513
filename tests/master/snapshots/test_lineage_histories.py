"""Jobs that start, die, stop and go on, from anything, under any id, while folders are removed, copied and damaged:
what is visible is what the model says, after every act.

:mod:`tests.master.snapshots.lineages` has the law and the acts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.services import KafkaServer, PostgresServer
from tests.master.snapshots.lineages import FILES, System, history, perform, shortened
from tests.master.snapshots.outside_systems import KafkaSystem, LedgerSystem, PostgresSystem
from tests.nightly import seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_TOGETHER = 10


def batches(by_day: int, at_night: int) -> list[range]:
    """Seeds of so many histories, some for each test."""
    every = seeds(by_day, at_night)
    return [every[first : first + _TOGETHER] for first in range(0, len(every), _TOGETHER)]


def go(these: range, root: Path, system: System) -> None:
    """Perform these histories. One that goes wrong is told again, as short as it can be."""
    for seed in these:
        acts = history(seed)
        world, wrong = perform(acts, root, system)
        if wrong is not None:
            shorter, again = perform(shortened(acts, root, system), root, system)
            told, why = (shorter, again) if again is not None else (world, wrong)
            raise AssertionError("\n".join([f"history {seed}: {why}", *told.story])) from wrong


@pytest.mark.parametrize("these", batches(100, 5000), ids=str)
def test_files(these: range, tmp_path: Path) -> None:
    go(these, tmp_path / "world", FILES)


@pytest.mark.parametrize("these", batches(20, 1000), ids=str)
def test_transactions(these: range, tmp_path: Path) -> None:
    go(these, tmp_path / "world", LedgerSystem())


@pytest.mark.kafka
@pytest.mark.parametrize("these", batches(3, 50), ids=str)
def test_kafka(these: range, kafka: KafkaServer, tmp_path: Path) -> None:
    go(these, tmp_path / "world", KafkaSystem(kafka))


@pytest.mark.postgres
@pytest.mark.parametrize("these", batches(5, 50), ids=str)
def test_postgres(these: range, postgres: PostgresServer, tmp_path: Path) -> None:
    go(these, tmp_path / "world", PostgresSystem(postgres))


def test_these_histories_can_go_wrong(tmp_path: Path) -> None:
    """Rows that somebody else removes are missed, and the history is made shorter."""

    class Leaking(System):
        def seen(self, place: str) -> list[str]:
            return [row for row in super().seen(place) if ":4:" not in row]

    acts = history(4)
    assert perform(acts, tmp_path / "world", Leaking())[1] is not None
    shorter = shortened(acts, tmp_path / "world", Leaking())
    assert len(shorter) <= 4
    assert "are lost" in str(perform(shorter, tmp_path / "world", Leaking())[1])
