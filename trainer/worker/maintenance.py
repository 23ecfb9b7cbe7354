"""Maintenance beside the training: run erasures, and clean up after workers and uploads that died."""

import logging
import threading
from collections.abc import Callable
from typing import Self

from registry.erasure.runner import run_erasures
from registry.registry import Registry
from registry.storage import write_claims
from trainer.worker.log import error_fields, log_event

EVERY_SECONDS = 5.0
JOIN_SECONDS = 5.0


class WorkerMaintenance:
    """Runs maintenance from a thread, periodically and after `run_soon`, until the block ends."""

    def __init__(self, registry: Registry, every_seconds: float = EVERY_SECONDS) -> None:
        self._registry = registry
        self._every_seconds = every_seconds
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def run_soon(self) -> None:
        """Start the next round now, for example because a job has ended and an erasure waited for its files."""
        self._wake.set()

    def __enter__(self) -> Self:
        _clean_up(self._registry)  # before the first lease: files of dead workers may fill the disk
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._wake.set()
        # An erasure may take long and can be interrupted anywhere, so do not wait for its end.
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        while not self._is_stopping:
            run_maintenance(self._registry)
            self._wake.wait(self._every_seconds)
            self._wake.clear()


def run_maintenance(registry: Registry) -> None:
    """Try everything that is due once; errors are logged, and tried again in the next round."""
    _clean_up(registry)
    _run_step("erasures completed", lambda: run_erasures(registry))


def _clean_up(registry: Registry) -> None:
    _run_step(
        "abandoned claims removed",
        lambda: write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch),
    )


def _run_step(event: str, step: Callable[[], int]) -> None:
    try:
        count = step()
    except Exception as error:  # the next round may succeed
        log_event("maintenance failed", level=logging.WARNING, **error_fields(error))
        return
    if count:
        log_event(event, count=count)
