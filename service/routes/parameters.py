"""Query and path parameters that several routes share."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from registry.db.paging import DEFAULT_LIMIT, MAX_CURSOR_LENGTH, MAX_LIMIT

TaskFilter = Annotated[str | None, Query(description="Only those of this task, by name or id.")]


@dataclass(frozen=True)
class PageQuery:
    """The requested page of a list."""

    after: str | None
    limit: int


async def _page_query(
    after: Annotated[
        str | None,
        Query(max_length=MAX_CURSOR_LENGTH, description="The `next` of the page before; none for the first."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The largest number of items.")] = DEFAULT_LIMIT,
) -> PageQuery:
    return PageQuery(after, limit)


Paging = Annotated[PageQuery, Depends(_page_query)]
