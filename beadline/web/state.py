"""The state of a running job over REST: what there is, one key, the largest keys, a view for SQL.

All answers are about the last sealed step. ``app.py`` includes ``router(master_of)``, where ``master_of(job_id)`` gives
the live ``JobMaster``, or None if the job is unknown or has ended (404 then).

``GET /jobs/:id/beadline/state``, perhaps with ``?operator=uid`` for one operator, and with ``exact=true`` or ``false``
for whether entries are counted (without it, small state is)::

    {"job_id": "…", "step": 42, "at": 1700000000000, "bytes": 98765, "file_bytes": 123456, "operators": [
      {"uid": "count", "name": "Count", "vertex_id": "32 hex digits", "generated_uid": false, "parallelism": 2,
       "max_parallelism": 128, "key_type": "STRING" or null (not declared, or not keyed), "keyed": true,
       "exact": true,           numbers of entries are counted; false: as the files' indexes say, with entries that
                                later ones have replaced (then they are upper bounds)
       "keys": 1200 or null,    keys with state; null if they were not counted
       "entries": 2400, "bytes": 98765,
       "file_bytes": 123456,    what its files take, with entries that later ones have replaced
       "states": [{"name": "total", "scope": "keyed" or "operator", "kind": "value|list|map|timer|union|broadcast|…",
                   "descriptor": "ValueState" or null, "type": "LONG" or null, "map_key_type": null,
                   "windowed": false, "ttl_ms": null, "entries": 1200, "bytes": 4567,
                   "table": "count.total" or null}],          what ``beadline state sql`` calls it
       "subtasks": [{"subtask": 0, "first_key_group": 0, "last_key_group": 63, "keys": 600 or null, "entries": 1200,
                     "bytes": 49000}],      key groups are null for operators that are not keyed
       "key_groups": {"width": 1, "entries": [19, 17, …], "bytes": [780, 690, …]} or null if not keyed}]}
                                how entries spread over key groups: element i is for the groups from i * width on;
                                at most 256 elements

Timers are states of kind ``timer``, named ``_event-timers`` and ``_processing-timers`` or alike.

``GET …/state/key?operator=uid&key=text``, perhaps with ``&state=name``. The text is parsed by the declared key type: a
number, a string as it is, JSON for tuples, rows and lists (``["ann", 7]``). Without a declared type, what matches is
taken: the text itself, or what it is as JSON::

    {"job_id": "…", "step": 42, "operator": "count", "key": "ann" (as JSON), "key_text": "ann" (what finds it
     again as ``key=``, and is fit to be shown), "key_type": "STRING" or null,
     "key_group": 17, "subtask": 0, "found": true, "bytes": 321,
     "states": [{"name": "total", "kind": "value", "descriptor": "ValueState" or null, "type": "LONG" or null,
                 "map_key_type": null, "windowed": false, "ttl_ms": null,
                 "entries": [{"window": {"start": 0, "end": 60000} or null, "value": any JSON, "bytes": 12,
                              "length": null,           how many elements a list or a map has
                              "truncated": false,       true: "value" has its first 1000 elements, or is the
                                                        beginning of its JSON as text (64 kB)
                              "written_at": ms or null, "expires_at": ms or null, "expired": false}],
                 "left_off": 0}],                       entries (windows) that are not shown
     "timers": [{"domain": "event" or "processing", "timestamp": ms, "window": null or {…}}], "timers_left_off": 0}

``GET …/state/largest?operator=uid&n=10``, perhaps with ``&state=name``::

    {"job_id": "…", "step": 42, "operator": "count", "keys": [
      {"key": "ann", "key_text": "ann", "key_group": 17, "subtask": 0, "bytes": 4711, "entries": 3,
       "states": {"total": 12, …}}],
     "keys_seen": 1200, "bytes_seen": 98765, "complete": true,    false: the time was up; see "note"
     "note": null or a sentence, "seconds": 0.02}

``POST …/state/view`` with ``{"keep_seconds": 60}``: a snapshot of the last sealed step, whose files stay for that long
(600 s at most). With ``"view": id`` an earlier view is kept for longer, or let go of with ``"keep_seconds": 0``::

    {"view": "…", "job_id": "…", "step": 42, "kept_until": ms, "metadata": "the text of a checkpoint's _metadata"}

Errors are ``{"errors": ["a sentence"]}``: 400 for a key that its type can't be, 404 for an unknown job, operator, state
or view, 503 if the job restarts just now or is busy with another question of this kind.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.errors import BeadlineError, VersionError
from beadline.master.job import JobMaster
from beadline.master.upkeep.views import LONGEST, View
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.local.keys import NoSuchKey
from beadline.state_processor.local.largest import MOST_KEYS, largest
from beadline.state_processor.local.lookup import look_up
from beadline.state_processor.local.overview import overview
from beadline.state_processor.local.parts import Pace
from beadline.web import view as view_text

# A reader takes a quarter of a processor, for as long as a client waits patiently.
_CONSIDERATE = Pace(share=0.25, seconds=15.0)
# How long the job master may take to answer: it does so between two events.
_PATIENCE_SECONDS = 5.0
# How long the files of an answer are kept at most: a reader that hangs must not hold them for ever.
_READ_SECONDS = 60.0
_TRIES = 3
_FRESH_SECONDS = 1.0
_MOST_VIEWS = 16

Operator = Annotated[str, Query(description="The uid of an operator.", max_length=1000)]
OnlyState = Annotated[str | None, Query(description="The name of a state; all if left out.", max_length=1000)]


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Wanted(BaseModel):
    """Which view, and for how long it is kept."""

    keep_seconds: float = Field(60.0, ge=0, le=LONGEST)
    view: str | None = Field(None, max_length=64)


def router(master_of: Callable[[str], JobMaster | None]) -> APIRouter:
    """The paths above, for the jobs that a function finds. Calls run in threads of the server's pool."""
    made, desk = APIRouter(tags=["state"]), _Desk(master_of)

    @made.get("/jobs/{job_id}/beadline/state", summary="Operators, states, sizes, and how they spread")
    def state(
        job_id: str,
        operator: Annotated[str | None, Query(description="The uid of one operator.", max_length=1000)] = None,
        exact: Annotated[bool | None, Query(description="Count entries; if left out, of small state.")] = None,
    ) -> Response:
        return _answered(lambda: desk.overview(job_id, operator, exact))

    @made.get("/jobs/{job_id}/beadline/state/key", summary="The values and timers of a key")
    def key(
        job_id: str,
        operator: Operator,
        key: Annotated[str, Query(description="The key, as its declared type is written.", max_length=10_000)],
        state: OnlyState = None,
    ) -> Response:
        return _answered(lambda: desk.key(job_id, operator, key, state))

    @made.get("/jobs/{job_id}/beadline/state/largest", summary="The keys with the most state")
    def largest_keys(
        job_id: str,
        operator: Operator,
        n: Annotated[int, Query(description="How many keys.", ge=1, le=MOST_KEYS)] = 10,
        state: OnlyState = None,
    ) -> Response:
        return _answered(lambda: desk.largest(job_id, operator, n, state))

    @made.post("/jobs/{job_id}/beadline/state/view", summary="A snapshot of the last sealed step, kept for a while")
    def view(job_id: str, wanted: Wanted) -> Response:
        return _answered(lambda: desk.view(job_id, wanted))

    return made


def _answered(answer: Callable[[], dict[str, Any]]) -> Response:
    """The answer as JSON; what went wrong as ``errors``."""
    try:
        status, content = 200, answer()
    except Problem as problem:
        status, content = problem.status, {"errors": [str(problem)]}
    except NoSuchKey as problem:
        status, content = 400, {"errors": [str(problem)]}
    except SnapshotError as problem:  # no such operator or state
        status, content = 404, {"errors": [str(problem)]}
    except BeadlineError as problem:
        status, content = 503, {"errors": [str(problem)]}
    # Escaped, so that halves of surrogate pairs in users' strings can be sent too.
    return Response(json.dumps(content), status, media_type="application/json")


class _Read(Protocol):
    def __call__(self, catalog: Catalog, view: View) -> dict[str, Any]: ...


class _Desk:
    """Answers questions about state, one heavy one at a time."""

    def __init__(self, master_of: Callable[[str], JobMaster | None]) -> None:
        self._master_of = master_of
        self._heavy = threading.Lock()
        self._views: dict[str, View] = {}
        self._cached: dict[tuple[Any, ...], tuple[int, float, dict[str, Any]]] = {}

    def overview(self, job_id: str, uid: str | None, exact: bool | None) -> dict[str, Any]:
        asked = (job_id, uid, exact)
        with self._one_at_a_time():

            def read(catalog: Catalog, view: View) -> dict[str, Any]:
                step, at, answer = self._cached.get(asked, (-1, -_FRESH_SECONDS, {}))
                if step != view.snapshot.step and time.monotonic() - at > _FRESH_SECONDS:
                    answer = overview(catalog, uid, exact, _CONSIDERATE)
                    if len(self._cached) > 64:
                        self._cached.clear()
                    self._cached[asked] = (view.snapshot.step, time.monotonic(), answer)
                return answer

            return self._read(job_id, read)

    def key(self, job_id: str, uid: str, text: str, state: str | None) -> dict[str, Any]:
        def read(catalog: Catalog, view: View) -> dict[str, Any]:
            operator = catalog.keyed_operator(uid, state)
            now = int(time.time() * 1000)
            return {"step": view.snapshot.step, **look_up(operator, catalog.states(uid), text, now, state)}

        return self._read(job_id, read)

    def largest(self, job_id: str, uid: str, n: int, state: str | None) -> dict[str, Any]:
        def read(catalog: Catalog, view: View) -> dict[str, Any]:
            return {"step": view.snapshot.step, **largest(catalog.keyed_operator(uid, state), n, state, _CONSIDERATE)}

        with self._one_at_a_time():
            return self._read(job_id, read)

    def view(self, job_id: str, wanted: Wanted) -> dict[str, Any]:
        master = self._master(job_id)
        self._views = {id: view for id, view in list(self._views.items()) if view.is_open}
        if wanted.view is None:
            if len(self._views) >= _MOST_VIEWS:
                raise Problem(503, f"{len(self._views)} views are open already: let go of one, or wait")
            view = self._look(job_id, wanted.keep_seconds)
            self._views[view.id] = view
        else:
            known = self._views.get(wanted.view)
            if known is None or known.snapshot.job_id != master.job_id or not known.keep(wanted.keep_seconds):
                raise Problem(404, f"job {job_id} has no view {wanted.view}: its time is up, or it was let go of")
            view = known
        if not wanted.keep_seconds:
            view.close()
        return {
            "view": view.id,
            "job_id": view.snapshot.job_id,
            "step": view.snapshot.step,
            "kept_until": int((time.time() + wanted.keep_seconds) * 1000),
            "metadata": view_text.to_text(view.snapshot),
        }

    def _read(self, job_id: str, read: _Read) -> dict[str, Any]:
        """Read from the last sealed step. If its files go meanwhile, because the job goes back to a checkpoint, from
        the one that is the last then."""
        problem: VersionError | None = None
        for _ in range(_TRIES):
            view = self._look(job_id, _READ_SECONDS)
            try:
                return {"job_id": view.snapshot.job_id, **read(Catalog(f"job {job_id}", view.snapshot), view)}
            except VersionError as error:
                problem = error
            finally:
                view.close()
        raise Problem(503, f"the state could not be read: {problem}")

    def _look(self, job_id: str, seconds: float) -> View:
        master = self._master(job_id)
        asked = master.look(seconds)
        try:
            return asked.result(_PATIENCE_SECONDS)
        except TimeoutError:
            asked.cancel()
            raise Problem(
                503, f"job {job_id} is {master.status.name} and has not answered for {_PATIENCE_SECONDS:g} s: try again"
            ) from None

    def _master(self, job_id: str) -> JobMaster:
        master = self._master_of(job_id)
        if master is None:
            raise Problem(
                404,
                f"job {job_id} does not run in this process. The state of a job that has ended is in its checkpoints "
                "and savepoints: 'beadline state' reads them",
            )
        return master

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if not self._heavy.acquire(timeout=_PATIENCE_SECONDS):
            raise Problem(503, "another question about state takes long: try again")
        try:
            yield
        finally:
            self._heavy.release()
