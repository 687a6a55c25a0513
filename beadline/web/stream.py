"""What happens to a job, as server-sent events: ``GET /jobs/:id/beadline/events``.

Each event is one of :mod:`beadline.master.reporting.news`, named by its class, with its fields as JSON. Its id says in
which driver it came and as which in turn. A browser that has lost the connection sends the id of the last event it saw,
and gets what came after that, as far as it is kept; from another driver, everything that is kept. A comment every 15
seconds shows both sides that the connection still stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response, StreamingResponse

from beadline.master.job import JobMaster
from beadline.master.reporting.news import News
from beadline.web.connections import Streams
from beadline.web.jobs import Jobs
from beadline.web.problems import Problem
from beadline.web.reading import ERRORS, JobId, found_record

QUIET_SECONDS = 15.0
_LOOK_SECONDS = 1.0
# A reader that is so far behind is let go of; it comes again, and gets what is kept.
_MOST_WAITING = 1000


def router(jobs: Jobs, driver: str, closing: Callable[[], bool]) -> APIRouter:
    """The route of the events.

    :param driver: tells this process from others that had the job before
    :param closing: whether the server is about to end
    """
    made = APIRouter(responses=ERRORS, tags=["jobs"])
    streams = Streams()

    @made.get("/jobs/{jobid}/beadline/events", summary="What happens to a job, as server-sent events")
    async def events(
        request: Request,
        jobid: JobId,
        last_event_id: Annotated[str | None, Header(description="The id of the last event seen.")] = None,
    ) -> Response:
        master = jobs.master(jobid)
        if master is None:
            record = found_record(jobs, jobid)
            raise Problem(409, f"Job {jobid} has ended: {record.state}. Its history is in …/beadline/timeline")
        is_stranger = request.scope.get("state", {}).get("is_stranger", True)
        if is_stranger and streams.is_full:
            raise Problem(
                503, "There are too many readers of events who have not shown the token. Show it, or come later."
            )
        after = _number(last_event_id, driver)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        lines = _lines(master, driver, after, closing, streams.open(is_stranger))
        return StreamingResponse(lines, media_type="text/event-stream; charset=utf-8", headers=headers)

    return made


def _number(last_event_id: str | None, driver: str) -> int:
    name, _, number = (last_event_id or "").partition("-")
    return int(number) if name == driver and number.isascii() and number.isdigit() and len(number) < 19 else 0


async def _lines(
    master: JobMaster, driver: str, after: int, closing: Callable[[], bool], place: AbstractContextManager[None]
) -> AsyncIterator[str]:
    """The events that are kept, then those that come, until the job and its last event are over."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[int, News]] = asyncio.Queue()

    def hear(number: int, event: News) -> None:
        # The loop may have ended by now; the job must not care.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(waiting.put_nowait, (number, event))

    with place:
        kept = master.news.join(hear, after)
        try:
            yield "retry: 1000\n\n" + "".join(_line(driver, number, event) for number, event in kept)
            quiet = 0.0
            while waiting.qsize() < _MOST_WAITING and not closing():
                try:
                    number, event = await asyncio.wait_for(waiting.get(), _LOOK_SECONDS)
                except TimeoutError:
                    if master.wait(0) and waiting.empty():
                        return
                    quiet += _LOOK_SECONDS
                    if quiet >= QUIET_SECONDS:
                        quiet = 0.0
                        yield ": still here\n\n"
                    continue
                quiet = 0.0
                lines = [_line(driver, number, event)]
                while not waiting.empty():
                    lines.append(_line(driver, *waiting.get_nowait()))
                yield "".join(lines)
        finally:
            master.news.leave(hear)


def _line(driver: str, number: int, event: News) -> str:
    fields = dataclasses.asdict(event)
    return f"event: {type(event).__name__}\nid: {driver}-{number}\ndata: {json.dumps(fields)}\n\n"
