"""The REST server as an app: all routes, the dashboard's files, and the rules that requests pass first.

Paths, methods, field names and status codes are Flink's, also under ``/v1``; our own paths are below
``/jobs/:jobid/beadline``. ``GET /openapi.json`` describes all of them, and ``/api`` shows that as a page.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from beadline import __version__
from beadline.web import actions, reading, stream
from beadline.web.api_page import API_PAGE_MAY, api_page
from beadline.web.jobs import Jobs
from beadline.web.operations import Operations
from beadline.web.problems import add_handlers, answer
from beadline.web.security import App, Guard, Rules

STATIC = Path(__file__).parent / "static"


def make_app(
    jobs: Jobs,
    rules: Rules,
    operations: Operations | None = None,
    directories: Callable[[], list[str]] = list,
    closing: Callable[[], bool] = lambda: False,
    running: Callable[[], list[dict[str, Any]]] = list,
    static: Path = STATIC,
) -> App:
    """An ASGI app that answers for these jobs.

    :param operations: keeps the outcomes of calls that take long
    :param directories: those that requests without a token may name
    :param closing: whether the server is about to end
    :param running: jobs of other processes, for a server of the history
    """
    app = FastAPI(
        title="Beadline",
        version=__version__,
        description="Running jobs and ended ones, on Flink's REST paths. Changes need the token of the driver.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    add_handlers(app)
    operations = operations or Operations()
    app.include_router(reading.cluster_router(jobs, may_cancel=not jobs.is_history))
    if not jobs.is_history:
        doing = actions.Actions(jobs, operations, rules.token is not None, directories)
        app.include_router(stream.router(jobs, secrets.token_hex(4), closing))
        _include_state(app, jobs)
    app.include_router(reading.job_router(jobs, token_required=rules.token is not None))
    if not jobs.is_history:
        app.include_router(actions.router(doing, operations))

    @app.get("/beadline/running", tags=["cluster"], summary="Jobs that run in other processes of this user")
    async def others() -> Response:
        return answer({"jobs": running(), "token_required": rules.token is not None})

    @app.get("/openapi.json", include_in_schema=False)
    async def schema() -> Response:
        return answer(app.openapi())

    @app.get("/api", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(api_page(app.openapi()), headers={"content-security-policy": API_PAGE_MAY})

    if static.is_dir():
        app.mount("/", _Files(directory=static, html=True))
    return Guard(app, rules)


class _Files(StaticFiles):
    """The dashboard's files. Browsers ask whether they have changed: after an upgrade of Beadline, they have."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


def _include_state(app: FastAPI, jobs: Jobs) -> None:
    from beadline.web import state

    make: Any = getattr(state, "router", None)
    if make is not None:
        app.include_router(make(jobs.master))
