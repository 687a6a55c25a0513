"""Errors of requests, in Flink's form: a status and ``{"errors": ["a sentence"]}``."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from beadline.web.answers import NotFound
from beadline.web.operations import TooManyOperations
from beadline.web.targets import PathRefused

_LOG = logging.getLogger("beadline")
_NO_STORE = {"cache-control": "no-store"}


class Problem(Exception):
    """A request that can't be answered as it is asked."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def answer(data: Any, status: int = 200) -> Response:
    """Data as JSON. Numbers that JSON does not have are texts, as Flink writes them."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False)
    body = text.encode("utf-8", "replace")
    return Response(body, status, _NO_STORE, media_type="application/json; charset=UTF-8")


def errors(status: int, *texts: str) -> Response:
    return answer({"errors": list(texts)}, status)


def add_handlers(app: FastAPI) -> None:
    """Let the app answer all errors in this form."""

    async def problem(request: Request, error: Any) -> Response:
        return errors(error.status, error.text)

    async def refused(request: Request, error: Any) -> Response:
        return errors(400, str(error))

    async def not_found(request: Request, error: Any) -> Response:
        return errors(404, str(error))

    async def too_many(request: Request, error: Any) -> Response:
        return errors(429, str(error))

    async def invalid(request: Request, error: Any) -> Response:
        return errors(400, *(_sentence(each) for each in error.errors()))

    async def http(request: Request, error: Any) -> Response:
        if error.status_code == 404:
            return errors(404, f"Not found: {request.url.path}")
        if error.status_code == 405:
            return errors(405, f"{request.method} is not a method of {request.url.path}")
        return errors(error.status_code, str(error.detail))

    async def fault(request: Request, error: Exception) -> Response:
        _LOG.warning("REST: %s %s failed: %r", request.method, request.url.path, error)
        return errors(500, "Internal server error.", f"{type(error).__name__}; the driver's log says more")

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(PathRefused, refused)
    app.add_exception_handler(NotFound, not_found)
    app.add_exception_handler(TooManyOperations, too_many)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, fault)


def _sentence(error: dict[str, Any]) -> str:
    where = [str(part) for part in error.get("loc", ())]
    kind, name = (where[0], ".".join(where[1:])) if where else ("request", "")
    if kind == "body":
        return f"Request did not match expected format: {name or 'the body'}: {error.get('msg', 'is wrong')}"
    return f"Bad request, could not parse parameters: {kind} parameter ({name}): {error.get('msg', 'is wrong')}"


def _finite(data: Any) -> Any:
    if isinstance(data, float) and (data != data or data in (float("inf"), float("-inf"))):
        return "NaN" if data != data else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
