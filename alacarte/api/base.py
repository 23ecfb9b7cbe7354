"""The base classes of requests and responses, the page of a list, and the problem document."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

D = TypeVar("D", bound=BaseModel)

MAX_UNKNOWN_MEMBERS = 20  # reported one by one; a request with more is refused as a whole
UUID_EXAMPLE = "01930b5e-7c1a-7f3e-9d52-0c2f6a1b8e44"
DIGEST_EXAMPLE = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
TIME_EXAMPLE = "2025-03-01T12:00:00Z"
PICTURE_EXAMPLE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"


def example(**members: JsonValue) -> ConfigDict:
    """Return the configuration that gives a model this example in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"example": members})


class ResponseModel(BaseModel):
    """The body of a response; members that a newer service adds are ignored."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class RequestModel(BaseModel):
    """The body of a request; unknown members are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _limit_members(cls, document: Any) -> Any:  # Any: the parsed JSON or form
        return require_few_members(document, len(cls.model_fields) + MAX_UNKNOWN_MEMBERS)


def require_few_members(document: Any, limit: int) -> Any:  # Any: the parsed JSON or form
    """Return the document, or raise if it has more members than the limit: each could be an error of its own."""
    if isinstance(document, dict) and len(document) > limit:
        raise PydanticCustomError("too_many_members", "at most {limit} members are allowed here", {"limit": limit})
    return document


class PageResponse(ResponseModel, Generic[D]):
    """One page of a list, and the cursor of the next."""

    items: list[D]
    next: str | None = Field(description="Send it as `after` to get the next page; null on the last page.")


class ProblemResponse(ResponseModel):
    """An error response: the problem document of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None  # Any: a location mixes names and indexes
    request_id: str | None = None
