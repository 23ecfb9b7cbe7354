"""Query parameters and the page that list routes share."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import BaseModel

from alacarte.api.base import PageResponse
from registry.db.paging import MAX_CURSOR_LENGTH, MAX_LIMIT, Page

T = TypeVar("T")
D = TypeVar("D", bound=BaseModel)

PageCursor = Annotated[
    str | None, Query(max_length=MAX_CURSOR_LENGTH, description="The `next` of the page before; none for the first.")
]
PageLimit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The largest number of rows in the page.")]


def to_page_response(page: Page[T], to_response: Callable[[T], D]) -> PageResponse[D]:
    """Return the page with each of its items converted."""
    return PageResponse(items=[to_response(item) for item in page.items], next=page.next)
