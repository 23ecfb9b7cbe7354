"""What all documents share: they are read from rows and dataclasses, and refuse members that nobody knows."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.db.paging import DEFAULT_LIMIT, MAX_CURSOR_LENGTH, MAX_LIMIT, Page

T = TypeVar("T")
D = TypeVar("D", bound=BaseModel)

After = Annotated[
    str | None, Query(max_length=MAX_CURSOR_LENGTH, description="The `next` of the page before; none for the first.")
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many rows the page has at most.")]
DEFAULT_PAGE = DEFAULT_LIMIT
MAX_STRANGERS = 20  # members that a document does not have, and each of which is told
UUID_EXAMPLE = "01930b5e-7c1a-7f3e-9d52-0c2f6a1b8e44"
DIGEST_EXAMPLE = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
MOMENT_EXAMPLE = "2025-03-01T12:00:00Z"


class Told(BaseModel):
    """A document that the service answers with."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Asked(BaseModel):
    """A document that a caller sends."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, document: Any) -> Any:  # Any: whatever JSON or a form has
        return require_few(document, len(cls.model_fields) + MAX_STRANGERS)


def require_few(document: Any, most: int) -> Any:  # Any: whatever JSON or a form has
    """The document, unless it has more members than this: each of them could be wrong in a way of its own."""
    if isinstance(document, dict) and len(document) > most:
        raise PydanticCustomError("too_many_members", "at most {most} members are looked at here", {"most": most})
    return document


class PageOf(Told, Generic[D]):
    """Some rows of a list, and the cursor of the next page."""

    items: list[D]
    next: str | None = Field(description="Give it as `after` to get the next page; null at the end.")


def page_of(page: Page[T], told: Callable[[T], D]) -> PageOf[D]:
    """The page as a document, each of its items told."""
    return PageOf(items=[told(item) for item in page.items], next=page.next)


def component(model: type[BaseModel]) -> dict[str, str]:
    """The place of a model in the description of the API, for routes whose bodies are read by hand."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def example_of(model: type[BaseModel]) -> object:
    """The example of a document."""
    return model.model_json_schema()["example"]
