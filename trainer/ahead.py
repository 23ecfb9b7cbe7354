"""Looking ahead: work for the next items is started while the present one is used."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Job = TypeVar("Job")

LOOKAHEAD = 2  # items whose work runs while the one before is used


def look_ahead(items: Iterable[Item], start: Callable[[Item], Job]) -> Iterator[tuple[Item, Job]]:
    """Every item with what was started for it, in order; `start` is called a few items before."""
    waiting: deque[tuple[Item, Job]] = deque()
    for item in items:
        waiting.append((item, start(item)))
        if len(waiting) > LOOKAHEAD:
            yield waiting.popleft()
    yield from waiting
