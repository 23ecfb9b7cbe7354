"""Looking ahead: work for the next item is started while the present one is used."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Job = TypeVar("Job")


def prefetch(items: Iterable[Item], start: Callable[[Item], Job]) -> Iterator[tuple[Item, Job]]:
    """Every item with what was started for it, in order; `start` is called one item before."""
    present: tuple[Item, Job] | None = None
    for item in items:
        coming = item, start(item)
        if present is not None:
            yield present
        present = coming
    if present is not None:
        yield present
