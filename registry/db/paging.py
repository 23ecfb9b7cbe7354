"""Long lists in pages: each begins after the last key of the one before, so that rows may come and go in between."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import Select, Uuid, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from registry.catalog.names import parse_id
from registry.errors import Invalid

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_CURSOR_LENGTH = 1000
BATCH_SIZE = 5000  # values in one SQL statement: both databases take several times as many

T = TypeVar("T")
U = TypeVar("U")
Key = InstrumentedAttribute[Any]  # Any: a column of ids or of texts


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list, and the cursor of those that come after; None when there are no more."""

    items: tuple[T, ...]
    next: str | None

    def map(self, turn: Callable[[T], U]) -> "Page[U]":
        """The same page of what every item turns into."""
        return Page(tuple(turn(item) for item in self.items), self.next)


def read_page(session: Session, statement: Select[T], *keys: Key, after: str | None, limit: int) -> Page[T]:
    """The rows of a statement of one entity, sorted by the keys, which together are unique and never change.

    A row that is there from the first page to the last is seen once, whatever comes and goes meanwhile.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise Invalid(f"a page has 1 to {MAX_LIMIT} rows, not {limit}")
    if after is not None:
        statement = statement.where(tuple_(*keys) > tuple_(*_position(after, keys)))
    # One more than asked for tells whether there is another page.
    rows = session.execute(statement.add_columns(*keys).order_by(*keys).limit(limit + 1)).all()
    has_more = len(rows) > limit
    items = tuple(row[0] for row in rows[:limit])
    return Page(items, _cursor(rows[limit - 1][1:]) if has_more else None)


def _cursor(values: Sequence[object]) -> str:
    text = json.dumps([str(value) for value in values], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str, keys: Sequence[Key]) -> list[object]:
    """The values of the keys where the page before ended."""
    refusal = Invalid("the cursor of the page is none that was given out: begin again without one")
    if len(cursor) > MAX_CURSOR_LENGTH:
        raise refusal
    try:
        texts = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError) as error:
        raise refusal from error
    if not isinstance(texts, list) or len(texts) != len(keys):
        raise refusal
    values: list[object] = []
    for key, text in zip(keys, texts, strict=True):
        if not isinstance(text, str) or not text.isprintable():
            raise refusal
        value = parse_id(text) if isinstance(key.type, Uuid) else text
        if value is None:
            raise refusal
        values.append(value)
    if _cursor(values) != cursor:  # decoding is lenient: it skips what is not base64
        raise refusal
    return values


def batched(items: Iterable[T], size: int = BATCH_SIZE) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, as many as one SQL statement takes."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
