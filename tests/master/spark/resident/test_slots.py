"""Slots are counted before workers are started: Spark would wait without a word for those that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from beadline.errors import EnvironmentSetupError
from beadline.master.spark.resident.engine import ResidentEngine, check_settings
from beadline.master.spark.resident.slots import Slots

SPARE_SLOTS = True
pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark: Any) -> ResidentEngine:
    return ResidentEngine(spark)


@pytest.fixture
def taken() -> Iterator[list[Slots]]:
    gangs: list[Slots] = []
    yield gangs
    for gang in gangs:
        gang.release()


def test_a_gang_is_as_wide_as_the_job_but_not_wider_than_the_cores(engine: ResidentEngine, taken: list[Slots]) -> None:
    for width, size in [(1, 1), (1000, engine.slots)]:
        taken.append(Slots(engine, width))
        assert taken[-1].size == size
        taken.pop().release()


def test_the_last_slot_is_left_free(engine: ResidentEngine, taken: list[Slots]) -> None:
    there = engine.all_slots()
    while sum(slots.size for slots in taken) < there - 1:
        taken.append(Slots(engine, engine.slots))
    with pytest.raises(
        EnvironmentSetupError, match=rf"Spark has {there}, {there - 1} of which are taken.*beadline\.engine"
    ):
        Slots(engine, 1)
    taken.pop().release()
    taken.append(Slots(engine, 1))


@pytest.mark.parametrize(
    ("conf", "master", "message"),
    [
        ({"spark.dynamicAllocation.enabled": "true"}, "yarn", r"SPARK-24942\). Set beadline\.engine: spark"),
        ({"spark.network.crypto.enabled": "true"}, "yarn", r"without encryption, but spark\.network\.crypto\.enabled"),
    ],
)
def test_settings_that_do_not_go_with_resident_workers_are_refused(
    conf: dict[str, str], master: str, message: str
) -> None:
    with pytest.raises(EnvironmentSetupError, match=message):
        check_settings(conf, master)


def test_on_one_machine_nothing_needs_encryption() -> None:
    check_settings({"spark.network.crypto.enabled": "true"}, "local[2]")
