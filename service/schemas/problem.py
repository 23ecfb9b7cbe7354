"""The problem document of RFC 9457, as the description of the API shows it."""

from typing import Any

from service.problems import MEDIA_TYPE
from service.schemas.base import Told, component

MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing, unknown, expired or revoked.",
    403: "You may see this, and may not do that.",
    404: "There is no such thing, or none that you may see.",
    405: "The path is there, and not for this method.",
    408: "The request did not arrive in time.",
    409: "It collides with what there is.",
    413: "Too large.",
    415: "This content type is not read here.",
    422: "A value is of the wrong kind.",
    500: "Something went wrong here.",
    503: "Not now: try again after a moment, as `Retry-After` says.",
}


class ProblemDocument(Told):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None  # Any: parts of a place in the request
    request_id: str | None = None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:  # Any: as the framework wants it
    """The responses of a route beside its own: those of all routes, and these."""
    return {
        status: {
            "description": MEANINGS[status],
            "content": {
                MEDIA_TYPE: {
                    "schema": component(ProblemDocument),
                    "example": {
                        "type": "urn:alacarte:problem:not-found",
                        "title": "Not found",
                        "status": status,
                        "detail": MEANINGS[status],
                    },
                }
            },
        }
        for status in sorted({400, 401, 408, 413, 422, 500, 503, *statuses})
    }
