"""What user code prints in a task travels in the acknowledgement, in order with the lines of print sinks."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator

import pytest

from beadline.runtime.functions.printed import Printed, WorkerOutput, gathered


@contextlib.contextmanager
def worker() -> Iterator[io.StringIO]:
    """A worker process, and what its standard output was before Beadline came."""
    outside = io.StringIO()
    with contextlib.redirect_stdout(outside):
        yield outside


def test_user_text_and_lines_of_sinks_keep_their_order() -> None:
    printed = Printed()
    with worker() as outside, gathered(printed):
        print("first", 1)
        print("second")
        printed.lines(["1> a", "1> b"])
        print("third", flush=True)
    assert printed.finish() == [(False, "first 1\nsecond\n"), (True, "1> a\n1> b\n"), (False, "third\n")]
    assert outside.getvalue() == ""


def test_a_line_that_was_not_ended_is_ended_before_a_sinks_line_and_at_the_end() -> None:
    printed = Printed()
    with worker(), gathered(printed):
        print("half", end=";")
        printed.lines(["a"])
        sys.stdout.write("rest")
    assert "".join(text for _, text in printed.finish()) == "half;\na\nrest\n"


def test_between_tasks_text_goes_where_it_went_before() -> None:
    later = Printed()
    with worker() as outside:
        with gathered(Printed()):
            held = sys.stdout  # as a logging handler holds it
        print("between", file=held, flush=True)
        assert outside.getvalue() == "between\n"
        with gathered(later):
            print("in the next task", file=held)
    assert later.finish() == [(False, "in the next task\n")]


def test_a_task_that_was_abandoned_does_not_silence_the_next_one() -> None:
    abandoned, current = gathered(Printed()), Printed()
    with worker():
        abandoned.__enter__()
        with gathered(current):
            abandoned.__exit__(None, None, None)
            print("heard")
    assert current.finish() == [(False, "heard\n")]


def test_too_much_text_is_cut_and_says_so() -> None:
    printed = Printed(limit=10)
    with worker(), gathered(printed):
        print("123456789")
        print("more")
        printed.lines(["a line of a sink is not cut"])
    text = "".join(text for _, text in printed.finish())
    assert text.startswith("123456789\na line of a sink is not cut\n… 5 more characters")


def test_bytes_and_the_usual_questions_work() -> None:
    printed = Printed()
    with worker(), gathered(printed):
        assert isinstance(sys.stdout, WorkerOutput)
        sys.stdout.buffer.write("grüß\n".encode())
        assert sys.stdout.writable()
        assert not sys.stdout.isatty()
        assert sys.stdout.encoding == "utf-8"
        with pytest.raises(TypeError, match="must be str, not bytes"):
            sys.stdout.write(b"x")  # type: ignore[arg-type]
    assert printed.finish() == [(False, "grüß\n")]
