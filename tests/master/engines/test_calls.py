"""Work of the local engine that nobody wants any more is interrupted, or left alone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

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
