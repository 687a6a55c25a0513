"""What a pattern finds, case by case: the examples of Flink's documentation, and those next to them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.cep import Pattern
from beadline.common.time import Time
from tests.cep.matching import Walk, letter, matches


def a_then_b(how: str) -> Pattern:
    return getattr(Pattern.begin("a").where(letter("a")), how)("b").where(letter("b"))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])],
)
def test_between_two_stages(how: str, expected: list[str]) -> None:
    assert matches(a_then_b(how), "a c b1 b2") == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("next", ["a1 b1", "a3 b2"]),
        ("followed_by", ["a1 b1", "a2 b2", "a3 b2"]),
        ("followed_by_any", ["a1 b1", "a1 b2", "a2 b2", "a3 b2"]),
    ],
)
def test_every_event_may_begin_a_match(how: str, expected: list[str]) -> None:
    assert matches(a_then_b(how), "a1 b1 a2 a3 b2 c") == expected


def a_loop_and_b(inner: str | None, between: str = "followed_by") -> Pattern:
    pattern = Pattern.begin("a").where(letter("a")).one_or_more()
    if inner is not None:
        getattr(pattern, inner)()
    return getattr(pattern, between)("b").where(letter("b"))


@pytest.mark.parametrize(
    ("inner", "between", "expected"),
    [
        ("consecutive", "next", ["a2 b"]),
        (None, "followed_by", ["a1 a2 b", "a1 b", "a2 b"]),
        ("allow_combinations", "followed_by", ["a1 a2 b", "a1 b", "a2 b"]),
    ],
)
def test_a_loop_at_the_beginning(inner: str | None, between: str, expected: list[str]) -> None:
    assert matches(a_loop_and_b(inner, between), "a1 c a2 b") == expected


def loop_in_the_middle(**how: Any) -> Pattern:
    pattern = Pattern.begin("c").where(letter("c")).followed_by("a").where(letter("a"))
    for name, arguments in how.items():
        getattr(pattern, name)(*arguments)
    return pattern.followed_by("b").where(letter("b"))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"one_or_more": (), "consecutive": ()}, ["c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]),
        ({"one_or_more": ()}, ["c a1 a2 a3 a4 b", "c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]),
        (
            {"one_or_more": (), "allow_combinations": ()},
            [
                "c a1 a2 a3 a4 b",
                "c a1 a2 a3 b",
                "c a1 a2 a4 b",
                "c a1 a2 b",
                "c a1 a3 a4 b",
                "c a1 a3 b",
                "c a1 a4 b",
                "c a1 b",
            ],
        ),
        ({"one_or_more": (), "greedy": ()}, ["c a1 a2 a3 a4 b"]),
        ({"times": (2,)}, ["c a1 a2 b"]),
        ({"times": (2,), "allow_combinations": ()}, ["c a1 a2 b", "c a1 a3 b", "c a1 a4 b"]),
        ({"times": (4,), "consecutive": ()}, []),
        ({"times": (2, 3)}, ["c a1 a2 a3 b", "c a1 a2 b"]),
        ({"times": (2, 3), "greedy": ()}, ["c a1 a2 a3 b"]),
        ({"times": (0, 1)}, ["c a1 b", "c b"]),
        ({"times_or_more": (3,)}, ["c a1 a2 a3 a4 b", "c a1 a2 a3 b"]),
        ({"times_or_more": (3,), "consecutive": ()}, ["c a1 a2 a3 b"]),
        ({"optional": ()}, ["c a1 b", "c b"]),
        ({"one_or_more": (), "optional": (), "consecutive": ()}, ["c a1 a2 a3 b", "c a1 a2 b", "c a1 b", "c b"]),
        ({"one_or_more": (), "optional": (), "greedy": ()}, ["c a1 a2 a3 a4 b"]),
    ],
)
def test_a_loop_in_the_middle(how: dict[str, Any], expected: list[str]) -> None:
    assert matches(loop_in_the_middle(**how), "c d a1 a2 a3 d a4 b") == expected


def test_a_greedy_stage_that_may_be_missing() -> None:
    pattern = loop_in_the_middle(one_or_more=(), optional=(), greedy=())
    assert matches(pattern, "c d b") == ["c b"]


def test_a_loop_at_the_end_tells_of_every_length() -> None:
    pattern = Pattern.begin("a").where(letter("a")).followed_by("b").where(letter("b")).one_or_more()
    assert matches(pattern, "a b1 c b2 b3") == ["a b1", "a b1 b2", "a b1 b2 b3"]
    twice = Pattern.begin("a").where(letter("a")).next("b").where(letter("b")).times(1, 2).consecutive()
    assert matches(twice, "a b1 b2 b3") == ["a b1", "a b1 b2"]


def test_until() -> None:
    pattern = Pattern.begin("a").where(letter("a")).one_or_more().until(letter("b"))
    walk = Walk(pattern).show("a1 c a2 b a3")
    assert sorted(walk.found) == ["a1", "a1 a2", "a2", "a3"]
    assert walk.state is not None
    assert len(walk.state[1]) == 1, "the loops that the b ended are forgotten"


def test_until_lets_the_next_stage_have_the_event() -> None:
    pattern = Pattern.begin("a").where(letter("a")).one_or_more().until(letter("b")).next("b").where(letter("b"))
    assert matches(pattern, "a1 a2 b a3 b") == ["a1 a2 b", "a2 b", "a3 b"]


def test_optional_stages() -> None:
    pattern = Pattern.begin("a").where(letter("a")).next("b").where(letter("b")).optional().next("c").where(letter("c"))
    assert matches(pattern, "a b c") == ["a b c"]
    assert matches(pattern, "a c b c") == ["a c"]
    first = Pattern.begin("a").where(letter("a")).optional().followed_by("b").where(letter("b"))
    assert matches(first, "a x b") == ["a b", "b"]
    last = Pattern.begin("a").where(letter("a")).followed_by("b").where(letter("b")).optional()
    assert matches(last, "a x b") == ["a", "a b"]


# -- negations


def test_not_next() -> None:
    pattern = Pattern.begin("a").where(letter("a")).not_next("b").where(letter("b")).followed_by("c").where(letter("c"))
    assert matches(pattern, "a1 b c a2 x b c a3 c") == ["a2 c", "a3 c"]
    last = Pattern.begin("a").where(letter("a")).not_next("b").where(letter("b"))
    assert matches(last, "a1 b a2 a3 b a4") == ["a2"]


def test_not_followed_by() -> None:
    pattern = (
        Pattern.begin("a")
        .where(letter("a"))
        .not_followed_by("b")
        .where(letter("b"))
        .followed_by("c")
        .where(letter("c"))
    )
    assert matches(pattern, "a1 x c a2 b c a3 c") == ["a1 c", "a3 c"]


def test_an_event_of_an_optional_stage_ends_the_negation_before_it() -> None:
    pattern = (
        Pattern.begin("a")
        .where(letter("a"))
        .not_followed_by("b")
        .where(letter("b"))
        .followed_by_any("c")
        .where(letter("c"))
        .optional()
        .followed_by_any("d")
        .where(letter("d"))
    )
    assert matches(pattern, "a c b d") == ["a c d"]
    assert matches(pattern, "a b d") == []


def test_a_negation_behind_a_loop_holds_while_it_loops() -> None:
    pattern = (
        Pattern.begin("a")
        .where(letter("a"))
        .one_or_more()
        .not_followed_by("b")
        .where(letter("b"))
        .followed_by("c")
        .where(letter("c"))
    )
    assert matches(pattern, "a1 b a2 c") == ["a2 c"]


def test_nothing_may_follow_until_the_time_is_over() -> None:
    pattern = Pattern.begin("a").where(letter("a")).not_followed_by("b").where(letter("b")).within(Time.milliseconds(5))
    walk = Walk(pattern).show("a1 b a2 x")
    assert walk.found == []
    walk.until(7)
    assert walk.found == []
    walk.until(8)
    assert (walk.found, walk.timed_out, walk.state) == (["a2"], [], None)


@pytest.mark.parametrize("events", ["a", "a x", "a x x"])
def test_silence_behind_a_loop_is_a_match_whatever_else_came(events: str) -> None:
    pattern = Pattern.begin("a").where(letter("a")).one_or_more().not_followed_by("b").where(letter("b"))
    walk = Walk(pattern.within(Time.milliseconds(9))).show(events).until(10)
    assert (walk.found, walk.state) == (["a"], None)


# -- conditions


def test_conditions_see_what_was_matched_before() -> None:
    pattern = (
        Pattern.begin("first")
        .followed_by("more")
        .where(lambda event, ctx: int(event) > sum(map(int, ctx.get_events_for_pattern("more"))))
        .one_or_more()
        .consecutive()
        .next("end")
        .where(lambda event, ctx: int(event) == int(ctx.get_events_for_pattern("first")[0]) + ctx.timestamp())
    )
    assert matches(pattern, "5 1 2 9") == ["5 1 2 9"], "9 = 5 + the fourth millisecond"


def test_and_or_of_conditions() -> None:
    pattern = Pattern.begin("x").where(letter("ab")).where(lambda event: event[1] == "1").or_where(letter("c"))
    assert matches(pattern, "a1 a2 b1 c2 d1") == ["a1", "b1", "c2"]
    mixed = Pattern.begin("x").where(letter("ab")).where(lambda event, ctx: ctx.timestamp() > 1).or_where(letter("c"))
    assert matches(mixed, "a1 a2 c d") == ["a2", "c"]


def test_a_condition_without_context_is_asked_once_an_event() -> None:
    asked: list[str] = []

    def is_b(event: str) -> bool:
        asked.append(event)
        return event == "b"

    pattern = Pattern.begin("a").where(letter("a")).followed_by("b").where(is_b)
    assert matches(pattern, "a1 a2 a3 x b") == ["a1 b", "a2 b", "a3 b"]
    assert asked == ["a2", "a3", "x", "b"]


# -- time


def test_within() -> None:
    pattern = a_then_b("followed_by").within(Time.milliseconds(3))
    walk = Walk(pattern).show("a1 x a2 b1")
    assert walk.found == ["a2 b1"], "a1 is 3 ms away, which is too long"
    assert walk.timed_out == [("a1", 4)]
    walk.show("a3").until(20)
    assert walk.timed_out == [("a1", 4), ("a3", 8)]
    assert walk.state is None


def test_the_same_events_run_out_of_time_once() -> None:
    """Behind the x they stand at two places: in the loop, and waiting for the b."""
    pattern = a_loop_and_b(None).within(Time.milliseconds(9))
    walk = Walk(pattern).show("a1 x").until(10)
    assert walk.timed_out == [("a1", 10)]


def test_the_shortest_within_counts() -> None:
    pattern = Pattern.begin("a").where(letter("a")).within(Time.milliseconds(2)).followed_by("b").where(letter("b"))
    assert matches(pattern.within(Time.seconds(1)), "a x b") == []


def test_states_are_forgotten_when_nothing_is_under_way() -> None:
    assert Walk(a_then_b("next")).show("a b").state is None
    assert Walk(a_then_b("next")).show("a x").state is None
    assert Walk(a_then_b("followed_by")).show("a x b").state is None


def test_partial_matches_share_their_events() -> None:
    walk = Walk(a_loop_and_b("allow_combinations")).show(" ".join(f"a{n}{'x' * 1000}" for n in range(8)))
    assert walk.state is not None
    data = pickle.dumps(walk.state, 5)
    for state in (walk.state, pickle.loads(data)):
        pairs = [part for partial in state[1] for part in partial[3] if isinstance(part, tuple)]
        assert len(pairs) > 1000
        assert len({id(pair) for pair in pairs}) == 8
    assert len(data) < 8 * 1100 + 40 * len(walk.state[1]), "an event is written once, whoever refers to it"
