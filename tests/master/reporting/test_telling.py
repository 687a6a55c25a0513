"""What is left of an error when only what concerns the user is told."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import pytest

import beadline
from beadline.errors import JobExecutionError
from beadline.master.failures import PoisonSettings, PoisonWatch
from beadline.master.reporting import telling
from beadline.master.reporting.telling import first_line
from beadline.master.spark.session import without_noise
from beadline.master.stepping import job_error
from beadline.runtime.failure import Failure

PACKAGE = os.path.dirname(os.path.abspath(beadline.__file__))

WORKER = f"""Traceback (most recent call last):
  File "/tmp/spark-1/userFiles-2/beadline-ab12.zip/beadline/runtime/operators/functions.py", line 65, in records
    result = call(record)
             ^^^^^^^^^^^^
  File "/home/me/job.py", line 4, in <lambda>
    numbers.map(lambda v: parse(v))
                          ^^^^^^^^
  File "/home/me/.venv/lib/python3.12/site-packages/numpy/core.py", line 9, in thing
    return make()
  File "{PACKAGE}/runtime/exchange/output.py", line 31, in take
    return convert(result)
  File "/home/me/job.py", line 9, in parse
    raise ValueError("no number:\\n" + v)
ValueError: no number:
x"""


def test_only_the_users_frames_are_kept() -> None:
    assert telling.folded(WORKER) == (
        "Traceback (most recent call last):\n"
        '  File "/home/me/job.py", line 4, in <lambda>\n'
        "    numbers.map(lambda v: parse(v))\n"
        "                          ^^^^^^^^\n"
        '  File "/home/me/.venv/lib/python3.12/site-packages/numpy/core.py", line 9, in thing\n'
        "    return make()\n"
        '  File "/home/me/job.py", line 9, in parse\n'
        '    raise ValueError("no number:\\n" + v)\n'
        "ValueError: no number:\nx"
    )
    assert telling.where_raised(WORKER) == [
        "  at /home/me/job.py, line 4, in <lambda>: numbers.map(lambda v: parse(v))",
        "  at /home/me/.venv/lib/python3.12/site-packages/numpy/core.py, line 9, in thing: return make()",
        '  at /home/me/job.py, line 9, in parse: raise ValueError("no number:\\n" + v)',
    ]


def deep(levels: int) -> Any:
    return deep(levels - 1) if levels else {}["nothing"]


def traceback_of(function: Any) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    raise AssertionError


@pytest.mark.parametrize("levels", [1, 30, 400])
def test_of_many_frames_the_innermost_are_told(levels: int) -> None:
    text = traceback_of(lambda: deep(levels))
    lines = telling.where_raised(text)
    assert len(lines) <= 4
    assert lines[-1].endswith('in deep: return deep(levels - 1) if levels else {}["nothing"]')
    assert len(telling.folded(text).splitlines()) <= 40
    assert telling.folded(text).endswith("KeyError: 'nothing'")


def test_the_cause_of_a_users_error_is_told() -> None:
    def wraps() -> None:
        try:
            deep(0)
        except KeyError as error:
            raise ValueError("mine") from error

    last = telling.where_raised(traceback_of(wraps))[-1]
    assert last.startswith("  caused by KeyError: 'nothing' at ")
    assert "in deep" in last
    assert "which led to:" in telling.folded(traceback_of(wraps))


@pytest.mark.parametrize("text", ["", "the traceback", "Traceback (most recent call last):\n", "  | odd\n  File x"])
def test_text_that_is_no_traceback_stays(text: str) -> None:
    assert telling.folded(text).split() == text.replace("Traceback (most recent call last):", "").split()
    assert telling.where_raised(text) == []


def test_a_failure_of_user_code_is_told_in_ten_lines() -> None:
    message = "\n".join(f"line {n} " + "x" * 1000 for n in range(50))
    text = traceback_of(lambda: deep(50))
    error = job_error(Failure("parse", 3, "'r" + "r" * 480, "ValueError", message, text, (7, "d")))
    error.add_note("The job is not restarted: all 2 restarts are used up")
    assert isinstance(error, JobExecutionError)
    assert error.full_traceback == text
    started = traceback.FrameSummary("/home/me/job.py", 80, "<module>", line="env.execute()")
    lines = telling.report(error, started)
    assert len(lines) <= 10
    assert max(len(line) for line in lines) <= 410
    assert lines[0].startswith("operator 'parse' (subtask 3) failed at record 'rrr")
    assert "ValueError: line 0 xxx" in lines[0]
    assert any("in deep: return deep" in line for line in lines)
    assert lines[-2:] == [
        "  at /home/me/job.py, line 80: env.execute()",
        "The job is not restarted: all 2 restarts are used up",
    ]
    assert len(first_line(error)) <= 500
    assert "\n" not in first_line(error)


def test_everything_is_told_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telling.VERBOSE, "1")
    error = job_error(Failure("parse", 3, "77", "ValueError", "no number", WORKER, (7, "d")))
    assert "".join(traceback.format_exception(error)).endswith(f"no number\nIn the worker:\n{WORKER}\n")


def test_an_error_on_its_way_out_has_neither_cause_nor_inner_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        try:
            deep(3)
        except KeyError as error:
            raise JobExecutionError("told") from error

    def caught() -> BaseException:
        try:
            fails()
        except JobExecutionError as error:
            return telling.bare(error)
        raise AssertionError

    monkeypatch.delenv(telling.VERBOSE, raising=False)
    assert "".join(traceback.format_exception(caught())) == "beadline.errors.JobExecutionError: told\n"
    monkeypatch.setenv(telling.VERBOSE, "1")
    assert "KeyError" in "".join(traceback.format_exception(caught()))


def test_of_a_users_error_on_the_driver_the_users_frames_are_left() -> None:
    def through_beadline() -> None:
        scope: dict[str, Any] = {"deep": deep}
        exec(compile("def plan(): deep(1)", f"{PACKAGE}/master/execution.py", "exec"), scope)
        scope["plan"]()

    try:
        through_beadline()
    except KeyError as error:
        names = [frame.name for frame in traceback.extract_tb(telling.bare(error).__traceback__)]
    assert names[1:] == ["through_beadline", "deep", "deep"]


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", False), ("no", False), ("1", True), ("yes", True)])
def test_the_variable_that_asks_for_everything(value: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(telling.VERBOSE, value)
    assert telling.verbose() is expected


def test_a_program_that_has_a_hook_of_its_own_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", print)
    telling.install()
    assert sys.excepthook is print


SPARKS = b"""Traceback (most recent call last):
  File "/x/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/x/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
USERS = b"""Traceback (most recent call last):
  File "/home/me/job.py", line 95, in send
    socket.send(b"")
BrokenPipeError: [Errno 32] Broken pipe
"""
OTHER = SPARKS.replace(b"BrokenPipeError", b"MemoryError")
CUT = b"Traceback (most recent call last):\n  a\n"


@pytest.mark.parametrize("text", [USERS, OTHER, b"a\n b\nTraceback of mine\n", CUT])
def test_what_user_code_writes_to_standard_error_comes_through(text: bytes) -> None:
    around = b"before\n" + text + b"after\n"
    assert b"".join(without_noise(around.splitlines(keepends=True))) == around


def test_what_workers_say_of_closed_sockets_does_not() -> None:
    text = b"before\n" + SPARKS + b"WARNING: Using incubator modules: x\n" + SPARKS + USERS + SPARKS + b"after\n"
    assert b"".join(without_noise(text.splitlines(keepends=True))) == b"before\n" + USERS + b"after\n"


# -- the same again


def failed(message: str, culprit: tuple[int, str] | None = None) -> JobExecutionError:
    return JobExecutionError(message, operator="parse", record="77", culprit=culprit)


def test_a_record_that_fails_again_is_counted_and_the_way_out_is_named_once() -> None:
    watch = PoisonWatch(PoisonSettings())
    told = []
    for record in ("a", "a", "b", "a", "b"):
        error = failed("bad", (3, record))
        told.append(watch.told(error, watch.failed(error)))
    advice = " (to go on without it, set beadline.poison.action=skip or beadline.poison.action=side-output)"
    assert told == [
        "",
        "; the same record has failed 2 times" + advice,
        "",
        "; the same record has failed 3 times",
        "; the same record has failed 2 times",
    ]
    assert watch.told(error, 2, again=True).endswith(advice)
    assert watch.poison is None


def test_an_error_without_a_record_is_counted_by_its_operator_kind_and_words() -> None:
    watch = PoisonWatch(PoisonSettings())
    errors: list[Exception] = [
        failed("step 3 failed 6 times: port 41234"),
        failed("step 17 failed 6 times: port 51"),
        failed("something else"),
        ValueError("step 3 failed 6 times: port 41234"),
    ]
    assert [watch.failed(error) for error in errors] == [1, 2, 1, 1]
    assert watch.told(errors[0], 2) == "; the same error has come 2 times"


def test_the_advice_is_not_given_to_who_follows_it() -> None:
    watch = PoisonWatch(PoisonSettings("skip", 5))
    error = failed("bad", (3, "a"))
    assert [watch.told(error, watch.failed(error)) for _ in range(2)] == ["", "; the same record has failed 2 times"]
