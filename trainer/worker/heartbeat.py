"""Keeping a lease while its shard is trained: from a thread of its own, which also learns when it is in vain."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from registry.db.database import Database
from registry.errors import LeaseLost
from registry.training.lease import Lease, lease_lost, renew_lease
from trainer.worker.errors import error_log_fields
from trainer.worker.log_events import log_event

LEAVE_SECONDS = 5.0


class Heartbeat:
    """Renews a lease, and says how far its training is, until the block is left or the lease is lost.

    A database that is away is asked again and again. Only when the lease has run out meanwhile is it lost: others may
    have it by now, or its source may be forgotten, which nobody could tell us.
    """

    def __init__(self, database: Database, lease: Lease, leased_at: float, every_seconds: float) -> None:
        """`leased_at`: the monotonic time before the lease was asked for."""
        self.progress = 0.0  # 0 to 1, set by whoever trains
        self._database = database
        self._lease = lease
        self._renewed_at = leased_at
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._lost: LeaseLost | None = None
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {lease.id}", daemon=True)

    @property
    def is_late(self) -> bool:
        """Whether the lease has run out, since nobody could be told in time that the worker lives."""
        return time.monotonic() - self._renewed_at > self._lease.seconds

    def check(self) -> None:
        """Raises LeaseLost as soon as it is known that the work is in vain."""
        if self._lost is not None or self.is_late:
            raise lease_lost(self._lease) from self._lost

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # A database that hangs keeps nobody in the attempt, whose files are to go; a beat that comes late does no harm.
        self._thread.join(LEAVE_SECONDS)

    def _beat(self) -> None:
        is_away = False
        while not self._stop.wait(self._every_seconds):
            asked_at = time.monotonic()
            try:
                renew_lease(self._database, self._lease, self.progress)
            except LeaseLost as error:
                self._lost = error
                return
            except Exception as error:  # whatever it is, the database may be back in time
                if not is_away:
                    log_event(
                        "heartbeat failed",
                        level=logging.WARNING,
                        shard=str(self._lease.shard_id),
                        **error_log_fields(error),
                    )
                is_away = True
            else:
                self._renewed_at = asked_at
                is_away = False
