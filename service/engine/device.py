"""The one thread that computes: whenever it is free it takes what waits, and answers everyone in the batch."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from service.engine.errors import ComputationFailed, DeadlinePassed, Missed, Overloaded
from service.engine.facts import BatchObserved
from service.engine.loading import Loaded
from service.engine.passing import Passes
from service.engine.residence import Residence
from service.engine.seating import Resident
from service.engine.threads import compute_with

log = logging.getLogger(__name__)

FAILURES = 5  # pictures in a row that failed: then it is the device, and no picture's fault
PAUSE_SECONDS = 30.0  # after which a device that failed may be tried again

Observe = Callable[[BatchObserved], None]  # called from the device's thread


@dataclass(frozen=True)
class Said:
    """What one pass found for one picture."""

    logits: Mapping[str, Tensor]  # (C) of each prompt, by its digest
    residents: Mapping[str, Resident]
    embedding: Tensor  # (D)


@dataclass(frozen=True, eq=False)
class Work:
    """One picture and the prompts that it is asked with, no more than one pass can take."""

    residence: Residence
    image: Tensor  # (3, S, S)
    digests: Sequence[str]  # none twice
    fetched: Mapping[str, Loaded]
    since: float  # when the picture was admitted, by the monotonic clock
    deadline: float
    said: asyncio.Future[Said]


class Device:
    """A thread of its own from `start` to `stop`; work may come from one event loop."""

    def __init__(self, max_pictures: int, max_pairs: int, threads: int | None, observe: Observe) -> None:
        self._max_pictures = max_pictures
        self._max_pairs = max_pairs
        self._threads = threads or torch.get_num_threads()
        self._pass = Passes(self._threads)
        self._observe = observe
        self._ready: deque[Work] = deque()
        self._change = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self.batches = self.pictures = self.pairs = self.failures = 0
        self._failures_lately = 0  # since the last pass that went well
        self._failed_at = 0.0
        self.seconds_each = 0.05  # of a picture in a batch, lately

    @property
    def ready(self) -> int:
        """How much waits for the device alone."""
        return len(self._ready)

    @property
    def is_well(self) -> bool:
        """Whether it computes; a device on which everything failed counts as well again after a pause, to be tried."""
        has_rested = time.monotonic() > self._failed_at + PAUSE_SECONDS
        return self._thread.is_alive() and (self._failures_lately < FAILURES or has_rested)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Everything that was handed in is answered, and the thread has ended."""
        with self._change:
            self._is_stopping = True
            self._change.notify()
        self._thread.join()
        self._pass.stop()

    def hand_in(self, work: Work) -> None:
        """The work will be answered; unless its future is cancelled, or its deadline passes, before it is begun."""
        with self._change:
            if self._is_stopping:
                raise Overloaded("this replica is stopping: ask again in a moment", retry_after=1)
            self._ready.append(work)
            self._change.notify()

    def _run(self) -> None:
        compute_with(self._threads)
        batch: list[Work] | None = None
        try:
            while (batch := self._take()) is not None:
                self._answer(batch)
                batch = None  # who waits for work holds on to nobody's picture or prompt
        except BaseException as error:
            log.critical("the device's thread has ended: nothing is computed any more", exc_info=error)
            self._give_up(batch or [], error)

    def _give_up(self, batch: Sequence[Work], error: BaseException) -> None:
        """Nothing more is taken in, and everyone who waits hears of it."""
        with self._change:
            self._is_stopping = True
            waiting = [*batch, *self._ready]
            self._ready.clear()
        with contextlib.suppress(RuntimeError):  # the event loop has ended, and so has everyone who waited
            tell([(work, ComputationFailed(error)) for work in waiting])

    def _take(self) -> list[Work] | None:
        with self._change:
            while not self._ready:
                if self._is_stopping:
                    return None
                self._change.wait()
            return self._form()

    def _form(self) -> list[Work]:
        """The oldest work that is still wanted, and what fits beside it; the rest keeps its order."""
        batch: list[Work] = []
        rest: deque[Work] = deque()
        pairs = 0
        while self._ready and len(batch) < self._max_pictures:
            work = self._ready.popleft()
            if not is_wanted(work):
                continue
            fits = pairs + len(work.digests) <= self._max_pairs and work.residence is (batch or [work])[0].residence
            if batch and not fits:
                rest.append(work)
                continue
            batch.append(work)
            pairs += len(work.digests)
        self._ready.extendleft(reversed(rest))
        return batch

    def _answer(self, batch: Sequence[Work]) -> None:
        """Each gets an answer or an error, and the thread lives on."""
        if not batch:
            return
        try:
            tell(self._compute(batch))
        except Exception as error:
            if len(batch) > 1:  # one picture or prompt may be the reason: then it fails alone
                for work in filter(is_wanted, batch):
                    self._answer([work])
                return
            self.failures += 1
            self._failures_lately += 1
            self._failed_at = time.monotonic()
            log.exception("a picture could not be computed")
            tell([(batch[0], ComputationFailed(error))])

    def _compute(self, batch: Sequence[Work]) -> list[tuple[Work, Said | Exception]]:
        began = time.monotonic()
        residence = batch[0].residence
        is_done = False
        try:
            seating, pool = residence.seat([(work.digests, work.fetched) for work in batch])
            seated = [batch[place] for place in seating.seated]
            logits: list[dict[str, Tensor]] = []
            embedding = torch.empty(0)
            if seated:
                seats = {digest: resident.seat for digest, resident in seating.residents.items()}
                sets = [work.digests for work in seated]
                images = [work.image for work in seated]
                logits, embedding = self._pass(residence.backbone, images, pool, sets, seats)
            is_done = True
        finally:
            residence.release(failed=not is_done)
        with self._change:
            self._ready.extendleft(batch[place] for place in reversed(seating.later))
        if seated:
            self._note(seated, began)
        told: list[tuple[Work, Said | Exception]] = [(batch[place], Missed()) for place in seating.missed]
        for work, own, seen in zip(seated, logits, embedding, strict=True):
            told.append((work, Said(own, {digest: seating.residents[digest] for digest in work.digests}, seen)))
        return told

    def _note(self, seated: Sequence[Work], began: float) -> None:
        seconds = time.monotonic() - began
        pairs = sum(len(work.digests) for work in seated)
        self._failures_lately = 0
        self.batches += 1
        self.pictures += len(seated)
        self.pairs += pairs
        self.seconds_each += 0.1 * (seconds / len(seated) - self.seconds_each)
        try:
            self._observe(BatchObserved(len(seated), pairs, tuple(began - work.since for work in seated), seconds))
        except Exception:  # whoever counts must not spoil an answer
            log.exception("a batch could not be observed")


def is_wanted(work: Work) -> bool:
    """Whether somebody still waits; whoever has waited too long is told so."""
    if work.said.done():
        return False
    if work.deadline <= time.monotonic():
        tell([(work, DeadlinePassed())])
        return False
    return True


def tell(told: Sequence[tuple[Work, Said | Exception]]) -> None:
    """Wake the event loop once for all of them."""
    if told:
        told[0][0].said.get_loop().call_soon_threadsafe(_settle, told)


def _settle(told: Sequence[tuple[Work, Said | Exception]]) -> None:
    for work, found in told:
        if work.said.done():
            continue
        if isinstance(found, Exception):
            work.said.set_exception(found)
        else:
            work.said.set_result(found)
