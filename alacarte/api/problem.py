"""The problem document of RFC 9457."""

from typing import Any

from alacarte.api.base import ResponseModel


class ProblemResponse(ResponseModel):
    """An error response."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None  # Any: a location mixes names and indexes
    request_id: str | None = None
