"""The progress of a study's trainings, and an estimate of the time that the rest takes."""

import threading
import time
from collections.abc import Callable, Iterable

from trainer.study.training_spec import TrainingSpec


class EtaEstimator:
    """Tracks cost and time by cost class; a class not yet measured is estimated from the others."""

    def __init__(self, trainings: Iterable[TrainingSpec], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._remaining: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._current: tuple[str, float] | None = None  # cost class, and when its time was last counted
        self._lock = threading.Lock()  # trainings in several threads report progress
        for training in trainings:
            name = training.cost_class
            self._remaining[name] = self._remaining.get(name, 0.0) + training.cost

    def begin(self, cost_class: str) -> None:
        """Count time for this cost class from now on."""
        with self._lock:
            self._count_time()
            self._current = (cost_class, self._clock())

    def end(self) -> None:
        """Stop counting time."""
        with self._lock:
            self._count_time()
            self._current = None

    def advance(self, training: TrainingSpec, epochs: int = 1) -> None:
        """Record that this many epochs of a training are done."""
        cost = training.cost * epochs / training.recipe.epochs
        name = training.cost_class
        with self._lock:
            self._done[name] = self._done.get(name, 0.0) + cost
            self._remaining[name] = max(0.0, self._remaining[name] - cost)

    @property
    def fraction_done(self) -> float:
        """The part of the total cost that is done, from 0 to 1."""
        with self._lock:
            done = sum(self._done.values())
            return done / max(done + sum(self._remaining.values()), 1e-9)

    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds; None before anything is measured."""
        with self._lock:
            self._count_time()
            done, seconds = sum(self._done.values()), sum(self._seconds.values())
            if not done or not seconds:
                return None
            mean_pace = seconds / done
            return sum(cost * self._pace(name, mean_pace) for name, cost in self._remaining.items())

    def _pace(self, cost_class: str, default: float) -> float:
        done = self._done.get(cost_class, 0.0)
        return self._seconds.get(cost_class, 0.0) / done if done else default

    def _count_time(self) -> None:
        if self._current is not None:
            (name, since), now = self._current, self._clock()
            self._seconds[name] = self._seconds.get(name, 0.0) + now - since
            self._current = (name, now)
