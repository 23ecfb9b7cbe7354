"""How much of a study's training is done, and how long the rest will take at the pace seen so far."""

import threading
import time
from collections.abc import Callable, Iterable

from trainer.study.train_prompts import Training


def kind_of(training: Training) -> str:
    """Trainings of one kind cost about the same for a picture in an epoch."""
    return "head" if training.recipe.variant == "head-only" else training.way


class Outlook:
    """Counts effort by kind; what of a kind was never done is guessed from the others."""

    def __init__(self, trainings: Iterable[Training], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._started: tuple[str, float] | None = None
        self._lock = threading.Lock()  # trainings side by side report as they go
        for training in trainings:
            kind = kind_of(training)
            self._left[kind] = self._left.get(kind, 0.0) + training.effort

    def begin(self, kind: str) -> None:
        """From now on, time is spent on this kind."""
        with self._lock:
            self._stop()
            self._started = (kind, self._clock())

    def end(self) -> None:
        """No kind has time spent on it now."""
        with self._lock:
            self._stop()

    def advance(self, training: Training, epochs: int = 1) -> None:
        """So many epochs of a training are done."""
        effort = training.effort * epochs / training.recipe.epochs
        kind = kind_of(training)
        with self._lock:
            self._done[kind] = self._done.get(kind, 0.0) + effort
            self._left[kind] = max(0.0, self._left[kind] - effort)

    @property
    def share_done(self) -> float:
        """How much of the effort is behind us, from 0 to 1."""
        with self._lock:
            done = sum(self._done.values())
            return done / max(done + sum(self._left.values()), 1e-9)

    def seconds_left(self) -> float | None:
        """How long the rest takes; None before anything is known."""
        with self._lock:
            if self._started is not None:
                kind = self._started[0]
                self._stop()
                self._started = (kind, self._clock())
            done, spent = sum(self._done.values()), sum(self._spent.values())
            if not done or not spent:
                return None
            return sum(left * self._pace(kind, spent / done) for kind, left in self._left.items())

    def _pace(self, kind: str, otherwise: float) -> float:
        done = self._done.get(kind, 0.0)
        return self._spent.get(kind, 0.0) / done if done else otherwise

    def _stop(self) -> None:
        if self._started is not None:
            kind, since = self._started
            self._spent[kind] = self._spent.get(kind, 0.0) + self._clock() - since
            self._started = None
