"""What is wrong with a pattern is said when it is written, not when the job runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beadline.api.output_tag import OutputTag
from beadline.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from beadline.common.time import Duration, Time
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import BeadlineError, ConfigurationError, GraphError, TypeMismatchError, UnsupportedFeatureError
from tests.cep.matching import letter

a = letter("a")


def begin(name: str = "a") -> Pattern:
    return Pattern.begin(name)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: begin(""), TypeMismatchError, "needs a name"),
        (lambda: begin().next(begin("b")), UnsupportedFeatureError, "groups"),
        (lambda: Pattern.begin("a", "no_skip"), TypeMismatchError, "AfterMatchSkipStrategy is needed"),
        (lambda: begin().where(3), TypeMismatchError, "takes a function of"),
        (lambda: begin().where(str), TypeMismatchError, "takes a function of"),
        (lambda: begin().where(lambda: True), TypeMismatchError, r"needs \(\)"),
        (lambda: begin().where(lambda x, y, z: True), TypeMismatchError, r"needs \(x, y, z\)"),
        (lambda: begin().times(0), ConfigurationError, r"times\(0\) matches nothing"),
        (lambda: begin().times(3, 2), ConfigurationError, r"times\(3, 2\) matches nothing"),
        (lambda: begin().times(1.5), TypeMismatchError, "whole numbers"),
        (lambda: begin().times_or_more(0), ConfigurationError, "1 or more"),
        (lambda: begin().times(2).one_or_more(), GraphError, "is a second quantifier"),
        (lambda: begin().within(Time.seconds(0)), ConfigurationError, "at least a millisecond"),
        (lambda: begin().within(Duration.of_nanos(5)), ConfigurationError, "at least a millisecond"),
        (lambda: begin().within(60), TypeMismatchError, "Time or a Duration"),
        (lambda: begin().until(a), GraphError, r"needs one_or_more\(\)"),
        (lambda: begin().times(3).until(a), GraphError, r"needs one_or_more\(\)"),
        (lambda: begin().one_or_more().until(a).until(a), GraphError, "already has an until"),
        (lambda: begin().greedy(), GraphError, r"greedy\(\) needs times\(\)"),
        (lambda: begin().consecutive(), GraphError, r"consecutive\(\) needs times\(\)"),
        (lambda: begin().allow_combinations(), GraphError, r"allow_combinations\(\) needs times\(\)"),
        (lambda: begin().one_or_more().consecutive().allow_combinations(), GraphError, "call either consecutive"),
        (lambda: begin().one_or_more().allow_combinations().greedy(), GraphError, "contradict"),
        (lambda: begin().one_or_more().greedy().allow_combinations(), GraphError, "contradict"),
        (lambda: begin().optional().optional(), GraphError, "already optional"),
        (lambda: begin().optional().not_next("b"), GraphError, "the negation 'b' can't follow it"),
        (lambda: begin().optional().not_followed_by("b"), GraphError, "the negation 'b' can't follow it"),
        (lambda: begin().not_next("b").optional(), GraphError, "can't be optional"),
        (lambda: begin().not_followed_by("b").times(2), GraphError, "negation"),
        (lambda: begin().not_next("b").one_or_more(), GraphError, "negation"),
    ],
)
def test_stages_that_make_no_sense(make: Callable[[], Any], kind: type[BeadlineError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


@pytest.fixture
def stream() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (begin().next("b").followed_by("a"), "two stages of the pattern are named 'a'"),
        (begin().not_followed_by("b"), "add within"),
        (begin().one_or_more().greedy(), "never end"),
        (begin().one_or_more().greedy().next("b").optional(), "never end"),
        (Pattern.begin("a", AfterMatchSkipStrategy.skip_to_first("z")).next("b"), "stages are a, b"),
    ],
)
def test_patterns_that_make_no_sense(stream: Any, pattern: Pattern, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        CEP.pattern(stream.key_by(lambda e: e[0]), pattern)


def test_a_keyed_stream_and_a_pattern_are_needed(stream: Any) -> None:
    with pytest.raises(GraphError, match=r"put a key_by\(\) before"):
        CEP.pattern(stream, begin())
    keyed = stream.key_by(lambda e: e[0])
    for nothing in (None, Pattern, "a"):
        with pytest.raises(TypeMismatchError, match="takes a Pattern"):
            CEP.pattern(keyed, nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="that key_by\\(\\) returns"):
        CEP.pattern([1], begin())  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="comparator"):
        CEP.pattern(keyed, begin(), 3)  # type: ignore[arg-type]


class Handles(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: Any, ctx: Any) -> Any:
        yield match

    def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
        yield match


def test_what_is_made_of_matches_is_checked(stream: Any) -> None:
    found = CEP.pattern(stream.key_by(lambda e: e[0]), begin())
    late = OutputTag("late")
    with pytest.raises(TypeMismatchError, match="PatternProcessFunction"):
        found.process(lambda match, ctx: match)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="function of a match"):
        found.select("fn")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give both or none"):
        found.select(len, None, late)
    with pytest.raises(GraphError, match="has no within"):
        found.select(len, None, late, lambda match, time: time)
    with pytest.raises(GraphError, match="has no within"):
        found.process(Handles())
    with pytest.raises(TypeMismatchError, match="takes an OutputTag"):
        found.side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="in processing time"):
        found.side_output_late_data(late).in_processing_time().select(len)
    with pytest.raises(ConfigurationError, match="in processing time"):
        CEP.pattern(stream.key_by(lambda e: e[0]), begin(), lambda x, y: 0).in_processing_time().select(len)
