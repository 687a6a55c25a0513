"""What is given up when a match is found: the examples of Flink's documentation."""

from __future__ import annotations

import pytest

from beadline.cep import AfterMatchSkipStrategy as After
from beadline.cep import Pattern
from beadline.common.time import Time
from beadline.errors import ConfigurationError
from tests.cep.matching import Walk, letter


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (After.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (After.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (After.skip_past_last_event(), ["b1 b2 b3 c"]),
        (After.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (After.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
    ],
)
def test_a_loop_and_an_end(after: After, expected: list[str]) -> None:
    pattern = Pattern.begin("b", after).where(letter("b")).one_or_more().consecutive().next("c").where(letter("c"))
    assert Walk(pattern).show("b1 b2 b3 c").found == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (After.no_skip(), ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"]),
        (After.skip_to_first("c"), ["a b c1 c2 c3 d", "c1 c2 c3 d"]),
        (After.skip_to_last("c"), ["a b c1 c2 c3 d"]),
    ],
)
def test_a_greedy_loop(after: After, expected: list[str]) -> None:
    pattern = (
        Pattern.begin("x", after)
        .where(letter("abc"))
        .next("y")
        .where(letter("bc"))
        .next("c")
        .where(letter("c"))
        .one_or_more()
        .greedy()
        .next("d")
        .where(letter("d"))
    )
    assert Walk(pattern).show("a b c1 c2 c3 d").found == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [(After.no_skip(), ["a b1", "a b1 b2", "a b1 b2 b3"]), (After.skip_to_next(), ["a b1"])],
)
def test_skip_to_next_leaves_one_match_for_each_beginning(after: After, expected: list[str]) -> None:
    pattern = Pattern.begin("a", after).where(letter("a")).next("b").where(letter("b")).one_or_more()
    assert Walk(pattern).show("a b1 b2 b3").found == expected


def test_matches_share_no_events() -> None:
    pattern = Pattern.begin("x", After.skip_past_last_event()).where(letter("a")).times(3)
    walk = Walk(pattern).show("a1 a2 a3 a4 x a5 a6")
    assert (walk.found, walk.state) == (["a1 a2 a3", "a4 a5 a6"], None)


def late_winner(after: After) -> Pattern:
    """A match of a b may complete while an earlier a c still waits for its d."""
    return (
        Pattern.begin("first", after)
        .where(letter("ac"))
        .followed_by("last")
        .where(lambda event, ctx: event[0] == {"a": "b", "c": "d"}[ctx.get_events_for_pattern("first")[0][0]])
        .within(Time.milliseconds(6))
    )


def test_a_match_waits_for_an_earlier_one() -> None:
    walk = Walk(late_winner(After.skip_past_last_event())).show("c a b")
    assert walk.found == []
    walk.show("d")
    assert (walk.found, walk.state) == (["c d"], None), "the earlier one won over the other, which overlaps it"
    assert Walk(late_winner(After.no_skip())).show("c a b d").found == ["a b", "c d"]


def test_a_held_match_is_released_when_the_earlier_one_runs_out_of_time() -> None:
    walk = Walk(late_winner(After.skip_past_last_event())).show("c a b").until(7)
    assert (walk.found, walk.timed_out, walk.state) == (["a b"], [("c", 7)], None)


def optional_first(after: After) -> Pattern:
    return Pattern.begin("a", after).where(letter("a")).optional().followed_by("b").where(letter("b"))


def test_a_stage_to_skip_to_may_be_missing() -> None:
    assert Walk(optional_first(After.skip_to_first("a"))).show("b").found == ["b"]
    with pytest.raises(ConfigurationError, match="'a' took no event"):
        Walk(optional_first(After.skip_to_first("a").throw_exception_on_miss())).show("b")
    with pytest.raises(ConfigurationError, match="'a' took the first event"):
        Walk(optional_first(After.skip_to_first("a").throw_exception_on_miss())).show("a b")
    fine = Pattern.begin("a", After.skip_to_last("b").throw_exception_on_miss()).where(letter("a"))
    assert Walk(fine.next("b").where(letter("b"))).show("a b").found == ["a b"]


def test_only_a_stage_can_be_missing() -> None:
    with pytest.raises(ConfigurationError, match="skips to no stage"):
        After.no_skip().throw_exception_on_miss()
