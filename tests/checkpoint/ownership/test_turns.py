"""Two drivers of one job, each paused between a look and what it does next: the job is never theirs both."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

import pytest

from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.storage.file_system import FileJobStorage
from tests.checkpoint.ownership.turns import TO_THE_END, Story
from tests.nightly import NIGHTLY

ORDERS = 20_000 if NIGHTLY else 120

pytestmark = pytest.mark.timeout(4 * 3600 if NIGHTLY else 300)

KINDS = [
    {"consumes": consumes, "at_once": at_once, "retained": retained, "rows": rows}
    for consumes, at_once, retained, rows in product([False, True], [False, True], [1, 2], [1, 2])
]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Drivers warn of what they find, some thousand times."""
    caplog.set_level(logging.ERROR, "beadline")


# One that goes back shows each row at once, or what it took back would not be seen.
BACK = [
    {"goes_back": True, "consumes": True, "retained": retained, "rows": 1} for retained in ((1, 2) if NIGHTLY else (2,))
]


def one_pause(kinds: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Before each operation of a driver, until it has none left; by day with one kind of job each, in turns."""
    for number in count(1):
        for kind in kinds if NIGHTLY else [kinds[number % len(kinds)]]:
            story = Story([("former", number), ("next", TO_THE_END)], **kind)
            yield number, kind
            story.tell()
        if story.turns.operations["former"] < number:
            return


@pytest.mark.parametrize("kinds", [KINDS, BACK], ids=["goes on", "goes back"])
def test_a_driver_that_is_paused_once_and_wakes_up_when_the_next_one_has_lived(kinds: list[dict[str, Any]]) -> None:
    pauses, at = 0, (0, kinds[0])
    try:
        for at in one_pause(kinds):  # noqa: B007
            pauses += 1
    except AssertionError as error:
        raise AssertionError(f"paused before operation {at[0]}, {at[1]}: {error}") from error
    assert pauses > 100


def any_order(seed: int) -> Story:
    dice = random.Random(seed)
    stretches = [1, 2, 3, 5, dice.randint(1, 120)]
    plan = [(dice.choice(["former", "next"]), dice.choice(stretches)) for _ in range(dice.randint(1, 8))]
    return Story(plan, **dice.choice(KINDS))


def test_drivers_that_take_turns_in_any_order() -> None:
    for seed in range(ORDERS):
        try:
            any_order(seed).tell()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def nobody_looks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "_look", lambda self, claims: None)


def no_last_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "check_after_publishing", lambda self: None)


def no_look_before_removing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileJobStorage, "_is_fenced", lambda self: False)


# Seeds that come to it soon.
@pytest.mark.parametrize(("fault", "first"), [(nobody_looks, 0), (no_last_look, 160), (no_look_before_removing, 40)])
def test_these_stories_can_fail(
    fault: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_one_fails() -> None:
        for seed in count(first):
            any_order(seed).tell()

    fault(monkeypatch)
    with pytest.raises(AssertionError):
        until_one_fails()
