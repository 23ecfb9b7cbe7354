"""The problem document of RFC 9457, as the description of the API shows it."""

from collections.abc import Mapping
from typing import Any

from service.http.problems import MEDIA_TYPE, title_of
from service.schemas.base import Told, component

# Of each status a kind of problem that has it, and what all that have it mean.
MEANINGS = {
    400: ("body-unreadable", "The request cannot be read."),
    401: ("unauthenticated", "The token is missing, unknown, expired or revoked."),
    403: ("forbidden", "You may see this, and may not do that."),
    404: ("not-found", "There is no such thing, or none that you may see."),
    408: ("body-too-slow", "The request did not arrive in time."),
    409: ("conflict", "It collides with what there is."),
    413: ("body-too-large", "Too large."),
    415: ("media-type-refused", "This content type is not read here."),
    422: ("invalid-request", "A value is of the wrong kind."),
    429: (
        "too-many-requests",
        "Too many requests with this token: go on after as many seconds as `Retry-After` says.",
    ),
    500: ("internal-error", "Something went wrong here."),
    503: ("busy", "Not now: try again after a moment, as `Retry-After` says."),
}
_SAID: dict[str, Any] = {"schema": {"type": "string"}}  # Any: a part of OpenAPI
REQUEST_ID = {"X-Request-ID": {"description": "Names the request in the log.", **_SAID}}
LOCATION = {"Location": {"description": "Where it can be looked at.", **_SAID}}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_HEADERS = {401: {"WWW-Authenticate": {"description": "How to say who you are.", **_SAID}}, 429: _RETRY, 503: _RETRY}


class ProblemDocument(Told):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None  # Any: parts of a place in the request
    request_id: str | None = None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:  # Any: as the framework wants it
    """The refusals of a route that not every other has, too; the description adds those."""
    return {status: _problem(status) for status in statuses}


def located(status: int) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that tells where to look at what it made."""
    return {status: {"headers": LOCATION}}


def common_problems(operation: Mapping[str, Any]) -> dict[str, dict[str, Any]]:  # Any: parts of OpenAPI
    """The refusals that an operation shares with all that want a token, read a body, or read anything, as it does."""
    statuses = {500, 503}
    if "security" in operation:
        statuses |= {401, 429}
    if "requestBody" in operation:
        statuses |= {400, 408, 413, 415, 422}
    if "parameters" in operation:
        statuses.add(422)
    return {str(status): _problem(status) for status in sorted(statuses)}


def _problem(status: int) -> dict[str, Any]:
    kind, meaning = MEANINGS[status]
    example = {
        "type": f"urn:alacarte:problem:{kind}",
        "title": title_of(kind),
        "status": status,
        "detail": meaning,
    }
    return {
        "description": meaning,
        "content": {MEDIA_TYPE: {"schema": component(ProblemDocument), "example": example}},
        "headers": _HEADERS.get(status, {}),
    }
