"""The device: lanes, each a thread that takes what waits whenever it is free, and answers everyone in its batch.

An accelerator has one. A CPU has several, which share its cores: threads that compute one product together wait for
each other at its end, hundreds of times a pass, and lanes never do. A picture that is alone is computed by all threads.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from alacarte.prompting.attention.logits import batch_logits
from service.engine.batch_queue import Batch, BatchQueue
from service.engine.errors import ComputationFailed, PromptEvicted
from service.engine.job import Job, PictureLogits, is_wanted, tell
from service.engine.prompt_cache import BatchPlacement
from service.engine.settings import EngineSettings
from service.engine.stats import BatchStats

log = logging.getLogger(__name__)

MAX_LANES = 4  # whose steps in Python do not keep each other waiting yet
FAILURES = 5  # pictures in a row that failed: then it is the device, and no picture's fault
_choosing_threads = threading.Lock()
PAUSE_SECONDS = 30.0  # after which a device that failed may be tried again

Observe = Callable[[BatchStats], None]  # called from a lane


class Device:
    """It has threads of its own from `start` to `stop`; work may come from one event loop."""

    def __init__(self, settings: EngineSettings, observe: Observe) -> None:
        self._threads = settings.compute_threads or torch.get_num_threads()
        lanes = lanes_of(settings, self._threads)
        self._threads_each = self._threads // lanes
        self._line = BatchQueue(lanes, settings.batch_pictures // lanes, settings.batch_pairs // lanes)
        self._lanes = [
            threading.Thread(target=self._run, args=(n,), name=f"lane_{n}", daemon=True) for n in range(lanes)
        ]
        self._observe = observe
        self._counting = threading.Lock()
        self.batches = self.pictures = self.pairs = self.failures = 0
        self._failures_lately = 0  # since the last pass that went well
        self._failed_at = 0.0
        self.seconds_each = 0.05  # between one picture and the next, lately

    @property
    def ready(self) -> int:
        """How much waits for the device alone."""
        return len(self._line)

    @property
    def is_healthy(self) -> bool:
        """Whether it computes; a device on which everything failed counts as well again after a pause, to be tried."""
        has_rested = time.monotonic() > self._failed_at + PAUSE_SECONDS
        is_alive = all(lane.is_alive() for lane in self._lanes)
        return is_alive and (self._failures_lately < FAILURES or has_rested)

    def start(self) -> None:
        for lane in self._lanes:
            lane.start()

    def stop(self) -> None:
        """Everything that was handed in is answered, and the threads have ended."""
        self._line.close()
        for lane in self._lanes:
            lane.join()

    def hand_in(self, work: Job) -> None:
        """The work will be answered; unless its future is cancelled, or its deadline passes, before it is begun."""
        self._line.join(work)

    def _run(self, lane: int) -> None:
        batch: Batch | None = None
        try:
            while (batch := self._line.take(lane)) is not None:
                use_threads(self._threads if batch.is_alone else self._threads_each)
                self._answer(batch)
                batch = None  # who waits for work holds on to nobody's picture or prompt
                self._line.end()
        except BaseException as error:
            log.critical("a lane of the device has ended: nothing is computed any more", exc_info=error)
            self._give_up(batch, error)

    def _give_up(self, batch: Batch | None, error: BaseException) -> None:
        """Nothing more is taken in, and everyone who waits hears of it; other lanes finish what they have begun."""
        self._line.close()
        waiting = [*(batch.works if batch else ()), *self._line.clear()]
        with contextlib.suppress(RuntimeError):  # the event loop has ended, and so has everyone who waited
            tell([(work, ComputationFailed(error)) for work in waiting])
        if batch is not None:
            self._line.end()

    def _answer(self, batch: Batch) -> None:
        """Each gets an answer or an error, and the lane lives on."""
        works = batch.works
        try:
            tell(self._compute(batch))
        except Exception as error:
            if len(works) > 1:  # one picture or prompt may be the reason: then it fails alone
                for work in filter(is_wanted, works):
                    self._answer(replace(batch, works=[work]))
                return
            with self._counting:
                self.failures += 1
                self._failures_lately += 1
                self._failed_at = time.monotonic()
            log.exception("a picture could not be computed")
            tell([(works[0], ComputationFailed(error))])

    def _compute(self, batch: Batch) -> list[tuple[Job, PictureLogits | Exception]]:
        began = time.monotonic()
        works = batch.works
        residence = works[0].residence
        seating, pool = residence.seat([(work.digests, work.fetched) for work in works])
        # Side by side those with equally many prompts, which attend in one step.
        seated = sorted((works[place] for place in seating.seated), key=lambda work: len(work.digests))
        logits: list[dict[str, Tensor]] = []
        embedding = torch.empty(0)
        is_done = False
        try:
            if seated:
                seats = {digest: resident.seat for digest, resident in seating.residents.items()}
                images = stack([work.image for work in seated], residence.backbone.device)
                sets = [work.digests for work in seated]
                logits, embedding = batch_logits(residence.backbone, images, pool, sets, seats)
            is_done = True
        finally:
            residence.release(seating, failed=not is_done)
        self._put_back(batch, seating)
        if seated:
            self._note(seated, began, 1 if batch.is_alone else len(self._lanes))
        told: list[tuple[Job, PictureLogits | Exception]] = [
            (works[place], PromptEvicted()) for place in seating.missed
        ]
        for work, own, seen in zip(seated, logits, embedding, strict=True):
            told.append(
                (work, PictureLogits(own, {digest: seating.residents[digest] for digest in work.digests}, seen))
            )
        return told

    def _put_back(self, batch: Batch, seating: BatchPlacement) -> None:
        """Who found no room comes next; and alone, if nobody came before them: others would always be there."""
        if batch.is_alone and seating.later and not seating.seated:
            raise RuntimeError("a picture finds no room for its prompts though nothing else is computed")
        is_first = min(seating.later, default=len(batch.works)) < min(seating.seated, default=len(batch.works))
        if is_first or seating.is_cramped:
            self._line.make_room()
        self._line.put_back([batch.works[place] for place in seating.later])

    def _note(self, seated: Sequence[Job], began: float, lanes: int) -> None:
        seconds = time.monotonic() - began
        pairs = sum(len(work.digests) for work in seated)
        with self._counting:
            self._failures_lately = 0
            self.batches += 1
            self.pictures += len(seated)
            self.pairs += pairs
            self.seconds_each += 0.1 * (seconds / len(seated) / lanes - self.seconds_each)
        try:
            self._observe(BatchStats(len(seated), pairs, tuple(began - work.since for work in seated), seconds))
        except Exception:  # whoever counts must not spoil an answer
            log.exception("a batch could not be observed")


def lanes_of(settings: EngineSettings, threads: int) -> int:
    """How many batches are computed side by side."""
    is_cpu = torch.device(settings.device).type == "cpu"
    return min(threads, MAX_LANES, settings.batch_pictures) if is_cpu else 1


def stack(images: Sequence[Tensor], device: torch.device) -> Tensor:
    """The images as one (B, 3, S, S), from where the device fetches them without anybody waiting."""
    if device.type != "cuda":
        return torch.stack(list(images)) if len(images) > 1 else images[0].unsqueeze(0)
    first = images[0]
    batch = torch.empty(len(images), *first.shape, dtype=first.dtype, pin_memory=True)
    return torch.stack(list(images), out=batch)


def use_threads(count: int) -> None:
    """The calling thread computes with that many from now on, whatever others choose."""
    with _choosing_threads:
        torch.set_num_threads(count)
        torch.get_num_threads()  # a thread settles when it first asks, and would settle for what another chose last


def use_one_thread() -> None:
    """The calling thread brings no others along: beside the device's there would be more of them than cores."""
    use_threads(1)
