"""One place that turns errors into answers: a sentence, a field, never a traceback."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ExceptionHandler

from remediator.errors import BadInput, RemediatorError, Retry
from remediator.observe.logs import logger

LONGEST_FIELD = 200
log = logger(stage="web")


class Unauthenticated(RemediatorError):
    """Nobody vouches for the sender."""


class Refused(RemediatorError):
    """The sender is known and may not do this; `reason` is a short constant for counting."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class TooLong(BadInput):
    """The body is longer than the door takes."""


class TooSlow(BadInput):
    """The body did not arrive in time."""


def outcome(error: RemediatorError) -> str:
    """The `result` label under which a request that ended in `error` is counted."""
    if isinstance(error, Unauthenticated):
        return "unauthenticated"
    if isinstance(error, Refused):
        return "refused"
    return "malformed" if isinstance(error, BadInput) else "unavailable"


def _ours(request: Request, error: Exception) -> Response:
    if isinstance(error, Unauthenticated):
        return _json(401, str(error), headers={"WWW-Authenticate": "Bearer"})
    if isinstance(error, Refused):
        return _json(403, str(error))
    if isinstance(error, BadInput):
        status = {TooLong: 413, TooSlow: 408}.get(type(error), 400)
        return _json(status, error.problem, field=error.field[:LONGEST_FIELD])
    # what is left is ours to mend (store, API server): nothing was stored, so the sender must send again
    log.warning("request not taken", path=request.url.path, kind=type(error).__name__, reason=str(error))
    after = error.after if isinstance(error, Retry) else 1.0
    return _json(503, "not stored; send it again", headers={"Retry-After": str(max(1, math.ceil(after)))})


def _http(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _json(error.status_code, error.detail.lower(), headers=dict(error.headers or {}))


def _unexpected(_request: Request, _error: Exception) -> Response:
    return _json(500, "internal error; the service's log has it")  # the server logs the traceback


def _json(status: int, error: str, *, field: str = "", headers: dict[str, str] | None = None) -> Response:
    content = {"error": error, "field": field} if field else {"error": error}
    return JSONResponse(content, status, headers)


HANDLERS: Final[Mapping[type[Exception], ExceptionHandler]] = {
    RemediatorError: _ours,
    HTTPException: _http,
    Exception: _unexpected,
}
"""They answer every error in the same form."""
