"""Housekeeping beside the training: carrying out erasures, and clearing up after workers and uploads that died."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from registry.erasure.runner import run_erasures
from registry.registry import Registry
from registry.storage import write_claims
from trainer.worker.errors import error_log_fields
from trainer.worker.log_events import log_event

EVERY_SECONDS = 5.0
LEAVE_SECONDS = 5.0


class WorkerMaintenance:
    """Keeps house from a thread of its own, now and then and whenever it is nudged, until the block is left."""

    def __init__(self, registry: Registry, every_seconds: float = EVERY_SECONDS) -> None:
        self._registry = registry
        self._every_seconds = every_seconds
        self._wake = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._keep, name="housekeeping", daemon=True)

    def nudge(self) -> None:
        """There may be something to do: an attempt has ended, and somebody may have waited for its files to go."""
        self._wake.set()

    def __enter__(self) -> Self:
        clear_up(self._registry)  # before the first lease: the rooms of the dead may fill the disk
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._wake.set()
        # An erasure may take long, and survives being left anywhere: nobody waits for it to end.
        self._thread.join(LEAVE_SECONDS)

    def _keep(self) -> None:
        while not self._is_over:
            run_maintenance(self._registry)
            self._wake.wait(self._every_seconds)
            self._wake.clear()


def run_maintenance(registry: Registry) -> None:
    """All that is due is tried once; what goes wrong is told, and tried again the next time."""
    clear_up(registry)
    _attempt("erasures completed", lambda: run_erasures(registry))


def clear_up(registry: Registry) -> None:
    """The dead leave nothing behind, as far as it can be reached from here."""
    _attempt(
        "cleared up", lambda: write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    )


def _attempt(event: str, work: Callable[[], int]) -> None:
    try:
        count = work()
    except Exception as error:  # the edge of the loop: the next time may go better
        log_event("housekeeping failed", level=logging.WARNING, **error_log_fields(error))
        return
    if count:
        log_event(event, count=count)
