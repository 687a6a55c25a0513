"""Work of the local engine that nobody wants any more is interrupted, or left alone."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait

import pytest

from beadline.errors import JobExecutionError
from beadline.master.engines.local import PATIENCE, Call, Cancelled, Interrupted
from beadline.master.engines.threads import Threads


@pytest.fixture
def pool() -> Iterator[Threads]:
    made = Threads(1, "calls")
    yield made
    made.shutdown(wait=False)


def fail(error: BaseException) -> None:
    raise error


def cancel_when(call: Call, begun: threading.Event) -> None:
    def cancel() -> None:
        begun.wait()
        time.sleep(0.05)
        call.cancel()

    threading.Thread(target=cancel).start()


def test_results_errors_and_threads_are_those_of_the_function(pool: Threads) -> None:
    assert Call().run(pool, lambda a, b: a + b, 1, 2) == 3
    assert Call().run(pool, threading.get_ident) == Call().run(pool, threading.get_ident) != threading.get_ident()
    late = TimeoutError("its own")
    with pytest.raises(TimeoutError, match="its own") as caught:
        Call().run(pool, fail, late)
    assert caught.value is late


def test_a_program_that_wants_to_exit_does_not_take_the_engine_along(pool: Threads) -> None:
    with pytest.raises(JobExecutionError, match=r"called sys.exit\(3\)"):
        Call().run(pool, fail, SystemExit(3))


def test_busy_work_is_interrupted_even_if_it_catches_every_exception(pool: Threads) -> None:
    begun, ended, call = threading.Event(), threading.Event(), Call()

    def busy() -> None:
        try:
            begun.set()
            while True:
                with contextlib.suppress(Exception):
                    sum(range(100))
        except Interrupted:
            ended.set()
            raise

    cancel_when(call, begun)
    with pytest.raises(Cancelled):
        call.run(pool, busy)
    assert ended.is_set()


def test_an_event_loop_is_interrupted_too(pool: Threads) -> None:
    begun, call = threading.Event(), Call()

    async def never() -> None:
        begun.set()
        while True:
            await asyncio.sleep(0.001)

    cancel_when(call, begun)
    began = time.monotonic()
    with pytest.raises(Cancelled):
        call.run(pool, lambda: asyncio.run(never()))
    assert time.monotonic() - began < PATIENCE


def test_work_that_waits_for_something_is_left_alone(pool: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beadline.master.engines.local.PATIENCE", 0.1)
    begun, never, call = threading.Event(), threading.Lock(), Call()

    def wait() -> None:
        begun.set()
        never.acquire()

    never.acquire()
    cancel_when(call, begun)
    with pytest.raises(Cancelled):
        call.run(pool, wait)
    never.release()


def test_what_is_cancelled_before_it_begins_does_not_begin(pool: Threads) -> None:
    call, done = Call(), threading.Event()
    call.cancel()
    with pytest.raises(Cancelled):
        call.run(pool, done.set)
    assert not done.is_set()


# -- threads that talk to Spark, and calls that never come back


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
