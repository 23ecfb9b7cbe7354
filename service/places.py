"""How many of a kind may be under way at once, and how many of them one user's."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from service.errors import Busy


class Places:
    """So many, of which nobody has more than half; taken and left within the event loop."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._most_of_one = max(1, count // 2)
        self._taken: Counter[UUID] = Counter()

    @contextmanager
    def taken_by(self, user: UUID, refusal: str) -> Iterator[None]:
        """A place for as long as the block lasts; Busy with the refusal where there is none."""
        # Nobody else comes in between the look and the taking: there is no await.
        if self._taken.total() >= self._count or self._taken[user] >= self._most_of_one:
            raise Busy(refusal)
        self._taken[user] += 1
        try:
            yield
        finally:
            self._taken -= Counter([user])  # who has none left is not remembered
