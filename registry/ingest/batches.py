"""Long lists in parts that one SQL statement takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
BATCH = 5000  # values in one statement: both databases take several times as many


def batches(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """The items in their order, in lists of that size; the last may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
