"""Errors as people get them over HTTP: RFC 9457 problem documents, each made here and nowhere else."""

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
from registry.storage.errors import StoreUnreachable
from registry.storage.ownership import StoreOwnershipError
from registry.storage.scratch import ScratchUnavailable
from service.engine.errors import BackboneUnavailable, BackboneWeightsMismatch
from service.errors import MethodNotAllowed, TokenMissing
from service.observability.logging import log, redact_secrets

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
MAX_TOLD = 20  # faults of one request
MAX_TOLD_LENGTH = 200
OPEN_INFERENCE = "/v2"  # its clients look for a member "error"

# Their messages are for the operator: they name hosts, folders and files.
_OPERATORS = (
    BackboneUnavailable,
    DatabaseUnreachable,
    BackboneWeightsMismatch,
    ScratchUnavailable,
    StoreOwnershipError,
    StoreUnreachable,
    WeightsUnavailable,
)
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Problem:
    """What went wrong, as the caller may know it."""

    status: int
    kind: str  # a name of the kind of problem, which does not change
    detail: str
    errors: Sequence[Mapping[str, Any]] | None = None  # Any: parts of a place in the request
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The kind in words."""
        return title_of(self.kind)


def title_of(kind: str) -> str:
    """The kind in words."""
    return kind.replace("-", " ").capitalize()


def to_problem(error: Exception) -> Problem:
    """The problem that an error is."""
    if isinstance(error, HTTPException) and isinstance(error.__cause__, DomainError):
        error = error.__cause__  # the framework hides what went wrong while a body came in
    if isinstance(error, _OPERATORS):
        detail = "something that this service needs cannot be reached: try again in a moment"
        return Problem(503, _kebab(type(error).__name__), detail, headers=_headers(503, error))
    match error:
        case RequestValidationError():
            return Problem(422, "invalid-request", _first(error), errors=_places(error))
        case HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            detail = "no such path" if error.status_code == HTTPStatus.NOT_FOUND else str(error.detail)
            return Problem(error.status_code, _kebab(phrase), detail, headers=error.headers or {})
        case DomainError() if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
            return Problem(
                error.status, _kebab(type(error).__name__), str(error), headers=_headers(error.status, error)
            )
        case PromptingError():
            status = 409 if isinstance(error, BackboneMismatch) else 422
            return Problem(status, _kebab(type(error).__name__), str(error))
        case _:
            return Problem(500, "internal-error", "something went wrong here: the request id names it in the log")


async def problem_response(request: Request, error: Exception) -> Response:
    """The response to a request that ended in this error; what is the operator's to mend is logged."""
    problem = to_problem(error)
    request_id = getattr(request.state, "request_id", None)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log(logging.ERROR, "request.failed", request_id=request_id, error=error)
    elif isinstance(error, _OPERATORS):
        log(logging.WARNING, "request.unserved", request_id=request_id, reason=str(error))
    return _response(problem, request_id, request.url.path)


def _response(problem: Problem, request_id: str | None, path: str) -> Response:
    document: dict[str, object] = {
        "type": f"urn:alacarte:problem:{problem.kind}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.errors is not None:
        document["errors"] = problem.errors
    if request_id is not None:
        document["request_id"] = request_id
    if path == OPEN_INFERENCE or path.startswith(f"{OPEN_INFERENCE}/"):
        document["error"] = problem.detail
    # ASCII: what is told of a request may hold characters that no encoding has. And it may hold a token by mistake.
    return Response(redact_secrets(json.dumps(document)), problem.status, dict(problem.headers), MEDIA_TYPE)


def _headers(status: int, error: Exception) -> dict[str, str]:
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        return {"Retry-After": str(getattr(error, "retry_after", RETRY_SECONDS))}
    if status == HTTPStatus.UNAUTHORIZED:
        fault = "" if isinstance(error, TokenMissing) else ', error="invalid_token"'
        return {"WWW-Authenticate": f'Bearer realm="alacarte"{fault}'}
    if isinstance(error, MethodNotAllowed):
        return {"Allow": error.methods}
    return {}


def _places(error: RequestValidationError) -> list[dict[str, Any]]:
    """Where the request is wrong, and how; never what stands there, which may be a secret or a picture."""
    return [
        {"loc": _loc(found), "msg": str(found["msg"])[:MAX_TOLD_LENGTH], "type": str(found["type"])}
        for found in error.errors()[:MAX_TOLD]
    ]


def _first(error: RequestValidationError) -> str:
    found, *others = error.errors()
    told = f"{'.'.join(str(part) for part in _loc(found))}: {str(found['msg'])[:MAX_TOLD_LENGTH]}"
    return f"{told} (and {len(others)} more)" if others else told


def _loc(found: Mapping[str, Any]) -> list[str | int]:
    """The place, whose parts may be names that the caller made up."""
    return [part if isinstance(part, int) else str(part)[:MAX_TOLD_LENGTH] for part in found["loc"]]


def _kebab(name: str) -> str:
    return _WORD.sub("-", name).replace(" ", "-").lower()
