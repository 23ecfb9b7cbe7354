"""The line before the device: which pictures are computed together, and which lane begins with them, and when."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.errors import Overloaded
from service.engine.job import Job, is_wanted

# Where every thread that ever computed with others has its own helpers, there are more than cores, and then OpenMP
# lets all of them sleep between any two steps.
SINGLE_WORKER = 0  # the lane that computes what is alone


@dataclass(frozen=True)
class Batch:
    """What one lane computes in one pass, and whether no other lane computes meanwhile."""

    works: Sequence[Job]
    is_alone: bool


class BatchQueue:
    """Job comes from one event loop, and is taken by so many lanes, each a thread."""

    def __init__(self, lanes: int, max_pictures: int, max_pairs: int) -> None:
        self._lanes = lanes
        self._max_pictures = max_pictures  # of one batch
        self._max_pairs = max_pairs
        self._waiting: deque[Job] = deque()
        self._lock = threading.Lock()
        self._turns = [threading.Condition(self._lock) for _ in range(lanes)]  # each lane's own: others sleep on
        self._at_work = 0  # lanes
        self._is_alone = False  # the one that is at work
        self._is_crowded = False  # somebody found no room beside others, and waits until they are done
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, work: Job) -> None:
        """It will be taken; unless its future is cancelled, or its deadline passes, before."""
        with self._lock:
            if self._is_closed:
                raise Overloaded("this replica is stopping: ask again in a moment", retry_after=1)
            self._waiting.append(work)
            self._wake()

    def take(self, lane: int) -> Batch | None:
        """The next batch, as soon as there is one that may begin; none at the end. Whoever takes one tells its end."""
        with self._lock:
            while True:
                if self._may_begin(lane):
                    is_alone = self._is_for_one()
                    works = self._form()
                    if works:
                        return self._begin(works, is_alone)
                    self._wake()  # whoever waits for this lane to begin waits for nobody
                elif self._is_over():
                    return None
                else:
                    self._turns[lane].wait()

    def end(self) -> None:
        """A batch that was taken is over."""
        with self._lock:
            self._at_work -= 1
            self._is_alone = False
            self._wake()

    def put_back(self, works: Sequence[Job]) -> None:
        """They come first."""
        with self._lock:
            self._waiting.extendleft(reversed(works))
            self._wake()

    def make_room(self) -> None:
        """The next batch begins when all lanes are done, and alone."""
        with self._lock:
            self._is_crowded = True

    def close(self) -> None:
        """Nobody may join any more; what waits is still taken."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def clear(self) -> list[Job]:
        """Those who wait, and do so no longer."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._wake()
            return waiting

    def _wake(self) -> None:
        """Those lanes that may begin now; whoever woke in vain would take time from them."""
        for lane, turn in enumerate(self._turns):
            if self._may_begin(lane) or self._is_over():
                turn.notify_all()

    def _is_over(self) -> bool:
        return self._is_closed and not self._waiting

    def _may_begin(self, lane: int) -> bool:
        if not self._waiting or self._is_alone or (self._is_crowded and self._at_work):
            return False
        return (
            lane == SINGLE_WORKER or self._is_closed or not self._is_for_one()
        )  # once it is closed that lane may be gone

    def _is_for_one(self) -> bool:
        """Whether what waits is computed by all threads, while no other lane computes."""
        return not self._at_work and (len(self._waiting) == 1 or self._is_crowded)

    def _begin(self, works: Sequence[Job], is_alone: bool) -> Batch:
        self._is_alone = is_alone
        self._is_crowded = False
        self._at_work += 1
        return Batch(works, is_alone)

    def _form(self) -> list[Job]:
        """The oldest work that is still wanted, and what fits beside it; idle lanes get their share of all that waits.

        The rest keeps its order.
        """
        idle = self._lanes - self._at_work
        most = min(self._max_pictures, -(-len(self._waiting) // idle))
        batch: list[Job] = []
        rest: deque[Job] = deque()
        pairs = 0
        while self._waiting and len(batch) < most:
            work = self._waiting.popleft()
            if not is_wanted(work):
                continue
            fits = pairs + len(work.digests) <= self._max_pairs and work.residence is (batch or [work])[0].residence
            if batch and not fits:
                rest.append(work)
                continue
            batch.append(work)
            pairs += len(work.digests)
        self._waiting.extendleft(reversed(rest))
        return batch
