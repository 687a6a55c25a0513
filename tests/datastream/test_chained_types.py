"""Where a declared type acts: not between two functions of a chain, but where a value leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.common import Row, Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import JobExecutionError

from .jobs import collect, environment

pytestmark = pytest.mark.usefixtures("local_engine")

ROW = Types.ROW_NAMED(["number"], [Types.INT()])
MISFIT = "not of its declared type"


def one(**options: Any) -> StreamExecutionEnvironment:
    return environment(1, **options)


def even_or_none(value: int) -> str | None:
    return str(value) if value % 2 == 0 else None


def even_row_or_none(value: int) -> Row | None:
    return Row(number=value) if value % 2 == 0 else None


class TestWithinAChain:
    def test_a_filter_takes_none_away(self) -> None:
        typed = one().from_collection([1, 2, 3, 4]).map(even_or_none, output_type=Types.STRING())
        assert collect(typed.filter(lambda value: value is not None)) == ["2", "4"]

    def test_a_filter_takes_none_away_from_rows(self) -> None:
        typed = one().from_collection([1, 2, 3, 4]).map(even_row_or_none, output_type=ROW)
        assert collect(typed.filter(lambda row: row is not None).map(lambda row: row["number"])) == [2, 4]

    def test_several_filters_pass_it_on(self) -> None:
        typed = one().from_collection([1, 2]).map(even_or_none, output_type=Types.STRING())
        passed = typed.filter(lambda value: True).filter(lambda value: True)
        assert collect(passed.map(lambda value: value or "none")) == ["none", "2"]

    def test_the_next_function_gets_what_was_returned(self) -> None:
        typed = one().from_collection([1, 2]).map(lambda value: {"v": value}, output_type=Types.STRING())
        assert collect(typed.map(lambda found: found["v"])) == [1, 2]

    def test_so_does_what_flat_map_yields(self) -> None:
        many = one().from_collection([1, 2]).flat_map(lambda value: [value, None], output_type=Types.INT())
        assert collect(many.filter(lambda value: value is not None)) == [1, 2]

    def test_so_do_results_by_key(self) -> None:
        keyed = one().from_collection([1, 2]).key_by(lambda value: value)
        typed = keyed.map(even_or_none, output_type=Types.STRING())
        assert collect(typed.filter(lambda value: value is not None)) == ["2"]

    def test_a_value_that_the_function_goes_on_changing_is_passed_as_it_was(self) -> None:
        seen: list[int] = []

        def grow(value: int) -> Any:
            for _ in range(2):
                seen.append(value)
                yield seen

        typed = one().from_collection([7]).flat_map(grow, output_type=Types.STRING())
        assert collect(typed.map(len)) == [1, 2]


class TestWhereItIsLeft:
    @pytest.mark.parametrize("make", [even_or_none, even_row_or_none])
    def test_a_sink_refuses_none(self, make: Any) -> None:
        declared = Types.STRING() if make is even_or_none else ROW
        typed = one().from_collection([1, 2]).map(make, output_type=declared)
        with pytest.raises(JobExecutionError, match=MISFIT):
            collect(typed)

    def test_a_filter_that_lets_it_pass_does_not_hide_it_from_a_sink(self) -> None:
        typed = one().from_collection([1, 2]).map(even_or_none, output_type=Types.STRING())
        with pytest.raises(JobExecutionError, match=MISFIT):
            collect(typed.filter(lambda value: True))
        again = one().from_collection([1, 2]).map(even_row_or_none, output_type=ROW)
        with pytest.raises(JobExecutionError, match=MISFIT):
            collect(again.filter(lambda value: True).filter(lambda value: True))

    @pytest.mark.parametrize("leave", [lambda s: s.rebalance(), lambda s: s.key_by(lambda value: 0)])
    def test_an_exchange_refuses_it(self, leave: Any) -> None:
        for between in (lambda s: s, lambda s: s.filter(lambda value: True)):
            typed = one().from_collection([1, 2]).map(even_or_none, output_type=Types.STRING())
            with pytest.raises(JobExecutionError, match=MISFIT):
                collect(leave(between(typed)).map(lambda value: 0))

    def test_two_consumers_are_no_chain(self) -> None:
        env = one()
        typed = env.from_collection([1, 2]).map(even_or_none, output_type=Types.STRING())
        typed.filter(lambda value: value is None).print()
        typed.filter(lambda value: value is not None).print()
        with pytest.raises(JobExecutionError, match=MISFIT):
            env.execute("two consumers")


def test_strict_types_are_checked_within_a_chain_too() -> None:
    env = one(beadline__types__strict="true")
    typed = env.from_collection([1, 2]).map(even_or_none, output_type=Types.STRING()).name("typed")
    with pytest.raises(JobExecutionError, match=r"'typed'.*not of its declared type"):
        collect(typed.filter(lambda value: value is not None))
