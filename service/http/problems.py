"""Serialise errors as RFC 9457 problem documents; all of them are made here."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from alacarte.prompting.errors import BackboneMismatch, PromptingError, WeightsUnavailable
from registry.errors import DatabaseUnreachable, DomainError
from registry.storage.ownership import StoreOwnershipError
from registry.storage.scratch import ScratchUnavailable
from registry.storage.store import StoreUnreachable
from service.engine.errors import BackboneUnavailable, BackboneWeightsMismatch
from service.errors import MethodNotAllowed, TokenMissing
from service.http.media_types import PROBLEM
from service.observability.logging import log, redact_secrets

RETRY_SECONDS = 2
MAX_ERRORS = 20  # validation errors in one response
MAX_TEXT_LENGTH = 200
OPEN_INFERENCE = "/v2"  # whose clients expect a member "error"

# Their messages name hosts, folders and files, so they are logged and not sent.
_OPERATOR_ERRORS = (
    BackboneUnavailable,
    DatabaseUnreachable,
    BackboneWeightsMismatch,
    ScratchUnavailable,
    StoreOwnershipError,
    StoreUnreachable,
    WeightsUnavailable,
)
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Problem:
    """An error as the caller sees it."""

    status: int
    kind: str  # stable, in kebab case
    detail: str
    errors: Sequence[Mapping[str, Any]] | None = None  # Any: parts of `loc`
    headers: Mapping[str, str] = field(default_factory=dict)


def title_of(kind: str) -> str:
    """Return the kind in words."""
    return kind.replace("-", " ").capitalize()


def to_problem(error: Exception) -> Problem:
    """Return the problem document's content for an error."""
    if isinstance(error, HTTPException) and isinstance(error.__cause__, DomainError):
        error = error.__cause__  # FastAPI wraps errors that occur while it reads a body
    if isinstance(error, _OPERATOR_ERRORS):
        detail = "a dependency of this service is unavailable: try again in a moment"
        return Problem(503, _kebab(type(error).__name__), detail, headers=_headers(503, error))
    match error:
        case RequestValidationError():
            return Problem(422, "invalid-request", _summarize(error), errors=_list_errors(error))
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            detail = "there is no such path" if error.status_code == HTTPStatus.NOT_FOUND else str(error.detail)
            return Problem(error.status_code, _kebab(phrase), detail, headers=error.headers or {})
        case DomainError() if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
            return Problem(
                error.status, _kebab(type(error).__name__), str(error), headers=_headers(error.status, error)
            )
        case PromptingError():
            status = 409 if isinstance(error, BackboneMismatch) else 422
            return Problem(status, _kebab(type(error).__name__), str(error))
        case _:
            return Problem(500, "internal-error", "an internal error; the log has it under the request id")


async def problem_response(request: Request, error: Exception) -> Response:
    """Return the response for this error, and log errors that the operator has to fix."""
    problem = to_problem(error)
    request_id = getattr(request.state, "request_id", None)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log(logging.ERROR, "request.failed", request_id=request_id, error=error)
    elif isinstance(error, _OPERATOR_ERRORS):
        log(logging.WARNING, "request.dependency-unavailable", request_id=request_id, reason=str(error))
    return _response(problem, request_id, request.url.path)


def _response(problem: Problem, request_id: str | None, path: str) -> Response:
    document: dict[str, object] = {
        "type": f"urn:alacarte:problem:{problem.kind}",
        "title": title_of(problem.kind),
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.errors is not None:
        document["errors"] = problem.errors
    if request_id is not None:
        document["request_id"] = request_id
    if path == OPEN_INFERENCE or path.startswith(f"{OPEN_INFERENCE}/"):
        document["error"] = problem.detail
    # As ASCII: a detail may quote lone surrogates of the request. Redacted: it may quote a token sent by mistake.
    return Response(redact_secrets(json.dumps(document)), problem.status, dict(problem.headers), PROBLEM)


def _headers(status: int, error: Exception) -> dict[str, str]:
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        return {"Retry-After": str(getattr(error, "retry_after", RETRY_SECONDS))}
    if status == HTTPStatus.UNAUTHORIZED:
        attribute = "" if isinstance(error, TokenMissing) else ', error="invalid_token"'
        return {"WWW-Authenticate": f'Bearer realm="alacarte"{attribute}'}
    if isinstance(error, MethodNotAllowed):
        return {"Allow": error.methods}
    return {}


def _list_errors(error: RequestValidationError) -> list[dict[str, Any]]:
    """List where the request is invalid and why, without its values, which may be secrets or pictures."""
    return [
        {"loc": _truncate_loc(one), "msg": str(one["msg"])[:MAX_TEXT_LENGTH], "type": str(one["type"])}
        for one in error.errors()[:MAX_ERRORS]
    ]


def _summarize(error: RequestValidationError) -> str:
    first, *others = error.errors()
    text = f"{'.'.join(str(part) for part in _truncate_loc(first))}: {str(first['msg'])[:MAX_TEXT_LENGTH]}"
    return f"{text} (and {len(others)} more)" if others else text


def _truncate_loc(problem: Mapping[str, Any]) -> list[str | int]:
    """Return the location; its parts may be names that the caller chose."""
    return [part if isinstance(part, int) else str(part)[:MAX_TEXT_LENGTH] for part in problem["loc"]]


def _kebab(name: str) -> str:
    return _WORD_START.sub("-", name).replace(" ", "-").lower()
