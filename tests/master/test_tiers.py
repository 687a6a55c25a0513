"""Which runs are merged, and how much of that between two checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from beadline.master.tiers import Budget, Window, left_of, windows_of
from beadline.state.slicing import layers_of, within
from beadline.state.version import Handle, RunRef

GROUPS = range(64)
STATE = 400 << 20
NEWEST = 4


def run(name: str, size: int, groups: tuple[int, int] | None = None) -> RunRef:
    return RunRef(name, size // 50, size, path=name, groups=groups)


def chained(*sizes: int) -> Handle:
    return Handle("root", tuple(chain(*sizes)))


def chain(*sizes: int) -> list[RunRef]:
    """Runs of these sizes and the newest ones, which are not touched."""
    return [run(f"v{number}", size) for number, size in enumerate([*sizes, *[10] * NEWEST])]


def names(window: Window) -> list[str]:
    return [run.version for run in window.runs]


def test_eight_of_a_tier_become_one() -> None:
    assert windows_of(chained(*[1 << 20] * 7), GROUPS) == []
    (window,) = windows_of(chained(*[1 << 20] * 8), GROUPS)
    assert names(window) == [f"v{number}" for number in range(8)]
    assert window.key_groups == GROUPS
    assert window.lies_on_nothing(GROUPS)


def test_a_larger_tier_stays_below() -> None:
    (window,) = windows_of(chained(10 << 20, *[1 << 20] * 8), GROUPS)
    assert names(window) == [f"v{number}" for number in range(1, 9)]
    assert not window.lies_on_nothing(GROUPS)


def test_a_tier_is_found_below_a_smaller_one() -> None:
    (window,) = windows_of(chained(*[10 << 20] * 8, *[1 << 20] * 3), GROUPS)
    assert names(window) == [f"v{number}" for number in range(8)]


def test_all_become_one_when_what_lies_above_is_as_large_as_the_oldest() -> None:
    below = [100 << 20, *[24 << 20] * 4]
    assert windows_of(chained(*below, *[1 << 20] * 3), GROUPS) == []
    (window,) = windows_of(chained(*below, *[1 << 20] * 5), GROUPS)
    assert len(window.runs) == 10


def test_a_window_that_was_begun_is_found_again() -> None:
    runs = chain(*[1 << 20] * 8)
    part = run("merged", 1 << 20, (0, 20))
    left = left_of([old.restricted(GROUPS) for old in runs[:8]], range(20, 64))
    assert left[-1].version == runs[7].version
    assert not {old.version for old in left[:-1]} & {old.version for old in runs}
    assert sum(old.weight for old in left) == 8 * ((1 << 20) * 44 // 64)
    later = [run(f"w{number}", 1 << 20) for number in range(8)]
    begun, new = windows_of(Handle("root", (part, *left, *later, *runs[8:])), GROUPS)
    assert begun.key_groups == range(20, 64)
    assert begun.runs == tuple(left)
    assert begun.lies_on_nothing(begun.key_groups)
    assert begun.below == (part,)
    assert names(new) == [f"w{number}" for number in range(8)]
    assert not new.lies_on_nothing(GROUPS)


def test_slices_are_short_work_and_within_the_budget() -> None:
    (window,) = windows_of(chained(*[8 << 20] * 8), GROUPS)
    assert list(window.slices((1 << 20) - 1)) == []
    parts = list(window.slices(10 << 20))
    assert [group for groups, _ in parts for group in groups] == list(range(10))
    assert sum(cost for _, cost in parts) == 10 << 20
    assert len(parts) > 1


def test_a_budget_ends_with_a_checkpoint() -> None:
    (window,) = windows_of(chained(*[8 << 20] * 8), GROUPS)
    budget = Budget()
    assert budget.spend(window) == []
    budget.wrote(4 << 20)
    assert sum(map(len, budget.spend(window))) == 12
    assert budget.left == 0
    budget.ended(2 << 20)
    assert budget.left == 10 << 20
    budget.checkpointed()
    assert budget.left == 0
    assert repr(budget) == "<Budget: 0 of 0 bytes left>"


def test_what_is_too_little_for_a_key_group_is_saved() -> None:
    (window,) = windows_of(chained(*[80 << 20] * 8), GROUPS)
    budget = Budget()
    spent = 0
    for _ in range(10):
        budget.wrote(1 << 20)
        spent += sum(map(len, budget.spend(window)))
        budget.ended(0 if not spent else 10 << 20)
        budget.checkpointed()
        if spent:
            break
    assert spent == 1
    assert budget.left == 0


def test_what_is_under_way_counts_in_the_next_checkpoint() -> None:
    (window,) = windows_of(chained(*[8 << 20] * 8), GROUPS)
    budget = Budget()
    budget.wrote(4 << 20)
    assert budget.spend(window)
    for _ in range(3):
        budget.checkpointed()
        assert budget.left == -12 << 20
    budget.ended(12 << 20)
    budget.wrote(5 << 20)
    assert budget.left == 3 << 20


def test_small_windows_are_free() -> None:
    (window,) = windows_of(chained(*[1 << 10] * 8), GROUPS)
    assert Budget().spend(window) == [GROUPS]


class Simulation:
    """State of which steps touch one hundredth of the keys, at random or in a way of their own; only sizes."""

    def __init__(self, overlap: str) -> None:
        self.overlap = overlap
        self.handle = Handle("root", (run("loaded", STATE),))
        self.budget = Budget()
        self.number = 0

    def merged(self, window: Window, groups: range) -> int:
        """How large the merged run is."""
        parts = [part.weight / (STATE * len(groups) / len(GROUPS)) for part in within(window.runs, groups)]
        if self.overlap == "random":
            share = 1 - math.prod(1 - min(1.0, part) for part in parts)
        else:
            share = sum(parts) if self.overlap == "new keys" else max(parts)
        return round(share * STATE * len(groups) / len(GROUPS))

    def checkpoint(self) -> int:
        """A step, merging as far as it goes, a checkpoint. Gives what it uploads."""
        self.number += 1
        uploaded = STATE // 100
        self.handle = self.handle.plus(run(f"v{self.number}", uploaded))
        self.budget.wrote(uploaded)
        while True:
            found = sorted(windows_of(self.handle, GROUPS), key=lambda window: window.weight)
            done = [size for window in found for size in self.merge(window)]
            self.budget.ended(sum(done))
            if not done:
                break
            uploaded += sum(done)
        self.budget.checkpointed()
        return uploaded

    def merge(self, window: Window) -> list[int]:
        slices = self.budget.spend(window)
        if not slices:
            return []
        merged = [run(f"{window.runs[-1].version} {s}", self.merged(window, s), (s.start, s.stop)) for s in slices]
        left = left_of(window.runs, range(slices[-1].stop, GROUPS.stop))
        if not left:
            merged[-1] = replace(merged[-1], version=window.runs[-1].version)
        span = (window.runs[0].version, window.runs[-1].version)
        self.handle = self.handle.replacing(*span, *merged, *left)
        return [part.size for part in merged]


@pytest.mark.parametrize("overlap", ["random", "the same keys", "new keys"])
def test_a_checkpoint_never_uploads_much_more_than_what_changed(overlap: str) -> None:
    simulation = Simulation(overlap)
    for _ in range(400):
        before = simulation.handle.size
        assert simulation.checkpoint() < 0.05 * before
        assert len(layers_of(simulation.handle.runs)) < 60
    assert simulation.handle.size < (6 if overlap == "new keys" else 3.2) * STATE
