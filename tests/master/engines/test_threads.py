"""Threads that talk to Spark, and calls that never come back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, wait

import pytest

from beadline.master.engines.threads import Threads


def test_work_is_done_in_order_by_as_many_threads_as_allowed() -> None:
    with Threads(1, "one") as one:
        seen: list[int] = []
        wait([one.submit(seen.append, number) for number in range(100)])
    assert seen == list(range(100))
    together = threading.Barrier(3)
    with Threads(3, "three") as three:
        assert {future.result(20) for future in [three.submit(together.wait, 20) for _ in range(3)]} == {0, 1, 2}


def test_an_error_is_the_callers() -> None:
    with Threads(1, "one") as threads:
        with pytest.raises(ZeroDivisionError):
            threads.submit(lambda: 1 // 0).result(20)
        assert threads.submit(int).result(20) == 0


def test_after_the_end_nothing_is_taken_and_what_was_taken_is_done() -> None:
    threads = Threads(1, "one")
    go_on = threading.Event()
    first, second = threads.submit(go_on.wait, 20), threads.submit(int)
    threads.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="after the end"):
        threads.submit(int)
    go_on.set()
    threads.shutdown(wait=True)
    assert (first.result(0), second.result(0)) == (True, 0)


def test_what_has_not_begun_can_be_dropped() -> None:
    threads = Threads(1, "one")
    begun, go_on = threading.Event(), threading.Event()
    first = threads.submit(lambda: begun.set() or go_on.wait(20))
    assert begun.wait(20)
    second = threads.submit(int)
    threads.shutdown(wait=False, cancel_futures=True)
    go_on.set()
    assert first.result(20)
    with pytest.raises(CancelledError):
        second.result(20)


def test_the_end_waits_no_longer_than_it_is_told_to() -> None:
    threads = Threads(1, "one")
    go_on = threading.Event()
    threads.submit(go_on.wait, 60)
    started = time.monotonic()
    threads.end(0.2)
    assert 0.2 <= time.monotonic() - started < 30
    go_on.set()


def test_a_call_that_never_comes_back_keeps_no_program_from_ending() -> None:
    program = (
        "import threading\n"
        "from beadline.master.engines.threads import Threads\n"
        "begun = threading.Event()\n"
        "Threads(1, 'stuck').submit(lambda: begun.set() or threading.Event().wait())\n"
        "begun.wait()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
