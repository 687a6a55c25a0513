"""print() in user functions: on the program's standard output, once, in order with the lines of print sinks."""

from __future__ import annotations

import os
from typing import Any

import pytest

from beadline.common import Types
from beadline.datastream import MapFunction
from beadline.errors import JobExecutionError

from .jobs import environment

pytestmark = pytest.mark.usefixtures("spark")


class Loud(MapFunction):
    def open(self, runtime_context: Any) -> None:
        print("opened")

    def map(self, value: int) -> int:
        print("user", value)
        return value

    def close(self) -> None:
        print("closed", end="")


def test_user_lines_come_with_their_step_and_before_the_results_they_led_to(capfd: Any) -> None:
    env = environment(1, step_records=2)
    env.from_collection([1, 2, 3, 4]).map(Loud()).print("sink")
    env.execute()
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "opened"
    # A step that goes on in another worker opens the function again.
    results = ["user 1", "user 2", "sink> 1", "sink> 2", "user 3", "user 4", "sink> 3", "sink> 4", "closed"]
    assert [line for line in lines if line != "opened"] == results


def test_what_was_printed_before_a_failure_is_shown_and_results_are_not(capfd: Any) -> None:
    def fail_at_two(value: int) -> int:
        print("before", value)
        return 1 // (value - 2)

    env = environment(1)
    env.from_collection([1, 2, 3]).map(lambda value: print("upstream", value) or value).key_by(lambda value: 0).map(
        fail_at_two, Types.INT()
    ).print()
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        env.execute()
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["upstream 1", "upstream 2", "upstream 3", "before 1", "before 2"]


def test_a_worker_that_dies_makes_nobody_print_twice(capfd: Any, tmp_path: Any) -> None:
    marker = str(tmp_path / "died")

    def die_once(value: int) -> int:
        print("user", value)
        if value == 3 and not os.path.exists(marker):
            with open(marker, "w"):
                pass
            os._exit(1)
        return value

    env = environment(1)
    env.from_collection([1, 2, 3]).map(die_once).print()
    env.execute()
    assert capfd.readouterr().out.splitlines() == ["user 1", "user 2", "user 3", "1", "2", "3"]
