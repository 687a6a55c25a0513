"""The operator of asynchronous functions: many calls under way at a time, all of them finished within the step.

Open calls need not be in state: a step is sealed as a whole, so the operator waits for its calls before the step ends.
Results leave in the order of their records, whichever call came back first: nobody sees a result before its step is
sealed, and a task that is run again must send the same bytes.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from beadline.api.async_functions import AsyncFunction
from beadline.api.function import Function
from beadline.graph.specs import AsyncSpec
from beadline.runtime.exchange.writer import IDLE, Timestamps
from beadline.runtime.failure import NO_RECORD, UserCodeError
from beadline.runtime.functions.aliasing import add_settled, settle_unkeyed
from beadline.runtime.messages import StepHeader, SubtaskInput
from beadline.runtime.operators.base import FunctionOperator, Setup
from beadline.state.store import Store

_HELD = 4096


class AsyncOperator(FunctionOperator[AsyncSpec]):
    """Calls ``async_invoke`` for each record, up to the capacity at a time.

    Records and watermarks wait in one queue. It is worked off when it is long enough and at the end of the step, so
    that the calls of one batch don't wait for those of the batch before.

    The event loop belongs to the subtask and runs in the task's own thread, only while there is something to wait for.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._function = self.spec.function
        self._calls = _Calls(self.spec)
        self._capacity = self.spec.capacity
        self._limit = max(_HELD, 4 * self.spec.capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._records: list[Any] = []
        # (number of records so far, the timestamps of the last of them, or the watermark or idleness after them)
        self._elements: list[tuple[int, Any]] = []

    # -- the life of the function

    def open(self) -> None:
        """Open the function inside its loop, because clients of network libraries want a running one."""
        self._loop = asyncio.new_event_loop()
        weakref.finalize(self, self._loop.close)
        for function in self.functions():
            if function is self._function:
                self.call_user(self._inside, function.open, self.context)
            else:
                self.call_user(function.open, self.context)
        self.opened = True

    def close(self) -> None:
        """Close the function, outside of the loop unless its ``close`` is asynchronous, and then the loop."""
        if not self.opened:
            return
        self.opened = False
        try:
            for function in self.functions():
                self.call_user(self._close, function)
        finally:
            self._close_loop()

    def _close(self, function: Function) -> None:
        closing: Any = function.close()  # type: ignore[func-returns-value]
        if inspect.isawaitable(closing):
            assert self._loop is not None
            self._loop.run_until_complete(_awaited(closing))

    def _inside(self, function: Callable[..., Any], *arguments: Any) -> None:
        async def call() -> None:
            result = function(*arguments)
            if inspect.isawaitable(result):
                await result

        assert self._loop is not None
        self._loop.run_until_complete(call())

    def _close_loop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.run_until_complete(_cancel_all_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    # -- the queue

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._records, self._elements = [], []

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        self._records += records
        self._elements.append((len(self._records), timestamps))
        if len(self._records) >= self._limit:
            self._work_off()

    def take_up(self, element: Any) -> None:
        self._elements.append((len(self._records), element))

    def end_step(self) -> None:
        self._work_off()
        super().end_step()

    def _work_off(self) -> None:
        """Finish the calls of all records that wait, then hand on results and watermarks in their order."""
        records, elements, self._records, self._elements = self._records, self._elements, [], []
        produced = self._finish_calls(records) if records else []
        start = 0
        for end, what in elements:
            if end > start:
                self._emit(records, produced, start, end, what)
                start = end
            elif what == IDLE or what.__class__ is int:
                super().take_up(what)

    def _emit(self, records: list[Any], produced: list[Any], start: int, end: int, timestamps: Timestamps) -> None:
        results: list[Any] = []
        times: list[int] | None = None if timestamps is None else []
        for position in range(start, end):
            try:
                add_settled(results, produced[position], settle_unkeyed)
            except Exception as error:
                raise UserCodeError(self.node, records[position], error) from error
            if times is not None:
                assert timestamps is not None
                times.extend([timestamps[position - start]] * (len(results) - len(times)))
        self.emit(results, times)

    # -- calls

    def _finish_calls(self, records: list[Any]) -> list[Any]:
        assert self._loop is not None
        try:
            return self._loop.run_until_complete(self._all(records))
        except Exception as error:
            self.fail(NO_RECORD, error)

    async def _all(self, records: list[Any]) -> list[Any]:
        """The results for each record. The first failure ends all calls."""
        results: list[Any] = [None] * len(records)
        waiting = iter(enumerate(records))
        node, call = self.node, self._calls.call

        async def work() -> None:
            # As many of these as the capacity allows; each takes the next record when its last one is done.
            for position, record in waiting:
                try:
                    results[position] = await call(record)
                except asyncio.CancelledError as error:
                    if _is_cancelled():
                        raise
                    raise UserCodeError(node, record, error) from error  # the function's own
                except Exception as error:
                    raise UserCodeError(node, record, error) from error

        workers = [asyncio.ensure_future(work()) for _ in range(min(self._capacity, len(records)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return results


class _Calls:
    """One call with its timeout and its retries. The timeout is for all attempts together."""

    def __init__(self, spec: AsyncSpec) -> None:
        self._function: AsyncFunction[Any, Any] = spec.function
        self._invoke = spec.function.async_invoke
        self._timeout = spec.timeout_ms / 1000
        self._strategy = spec.retry
        predicate = spec.retry.get_retry_predicate()
        self._wants_result = predicate.result_predicate()
        self._wants_exception = predicate.exception_predicate()
        retries = self._wants_result is not None or self._wants_exception is not None
        self._attempts = self._with_retries if retries else self._invoke
        self.call = self._within_timeout if self._timeout > 0 else self._checked

    async def _checked(self, record: Any) -> Iterable[Any]:
        return self._check(await self._attempts(record))

    async def _within_timeout(self, record: Any) -> Iterable[Any]:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return self._check(await self._attempts(record))
        except TimeoutError:
            if not limit.expired():
                raise  # the function's own
        return self._check(self._function.timeout(record))

    async def _with_retries(self, record: Any) -> Any:
        attempts = 1
        while True:
            try:
                result = await self._invoke(record)
            except Exception as error:
                if not self._another(self._wants_exception, error, attempts):
                    raise
            else:
                if not self._another(self._wants_result, result, attempts):
                    return result
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _another(self, wants: Callable[[Any], bool] | None, outcome: Any, attempts: int) -> bool:
        return wants is not None and bool(wants(outcome)) and self._strategy.can_retry(attempts)

    def _check(self, result: Any) -> Iterable[Any]:
        if isinstance(result, Iterable):
            return result
        wrong = "cannot be none" if result is None else "should be of list type"
        raise TypeError(
            f"The result of AsyncFunction {wrong}: async_invoke or timeout of {type(self._function).__name__} returned "
            f"{result!r}. Return a list of results, empty for no result."
        )


async def _awaited(awaitable: Awaitable[Any]) -> None:
    await awaitable


async def _cancel_all_others() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
