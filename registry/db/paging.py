"""Keyset pagination: each page begins after the last key of the page before, so rows may come and go in between."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, Uuid, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from registry.errors import Invalid
from registry.ids import parse_id

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_CURSOR_LENGTH = 1000
BATCH_SIZE = 5000  # values in one SQL statement: both databases take several times as many

T = TypeVar("T")
U = TypeVar("U")
Key = InstrumentedAttribute[Any]  # Any: a column of ids or of text


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list, and the cursor of the next page; None on the last page."""

    items: tuple[T, ...]
    next: str | None

    def map(self, convert: Callable[[T], U]) -> "Page[U]":
        """Return the page with every item converted."""
        return Page(tuple(convert(item) for item in self.items), self.next)


def read_page(session: Session, statement: Select[T], *keys: Key, after: str | None, limit: int) -> Page[T]:
    """Read one page of a statement of one entity, sorted by keys that together are unique and never change.

    A row that exists from the first page to the last is returned exactly once.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise Invalid(f"a page has 1 to {MAX_LIMIT} rows, not {limit}")
    if after is not None:
        statement = statement.where(tuple_(*keys) > tuple_(*_parse_cursor(after, keys)))
    # One row more than requested shows whether there is another page.
    rows = session.execute(statement.add_columns(*keys).order_by(*keys).limit(limit + 1)).all()
    has_more = len(rows) > limit
    items = tuple(row[0] for row in rows[:limit])
    return Page(items, _cursor(rows[limit - 1][1:]) if has_more else None)


def _cursor(values: Sequence[object]) -> str:
    text = json.dumps([str(value) for value in values], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse_cursor(cursor: str, keys: Sequence[Key]) -> list[object]:
    """Return the key values in a cursor; raise Invalid unless `_cursor` made it."""
    invalid = Invalid("the cursor is not valid: begin again without one")
    if len(cursor) > MAX_CURSOR_LENGTH:
        raise invalid
    try:
        texts = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise invalid from error
    if not isinstance(texts, list) or len(texts) != len(keys):
        raise invalid
    values: list[object] = []
    for key, text in zip(keys, texts, strict=True):
        if not isinstance(text, str) or not text.isprintable():
            raise invalid
        value = parse_id(text) if isinstance(key.type, Uuid) else text
        if value is None:
            raise invalid
        values.append(value)
    if _cursor(values) != cursor:  # the decoder ignores characters that are not base64
        raise invalid
    return values


def batched(items: Iterable[T], size: int = BATCH_SIZE) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, as many as one SQL statement takes."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
