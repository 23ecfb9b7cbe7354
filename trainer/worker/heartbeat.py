"""Renews the lease of a shard while it is trained, and reports the progress."""

import logging

from registry.db.database import Database
from registry.db.heartbeat import Heartbeat
from registry.training.lease import Lease, renew_lease
from trainer.worker.errors import error_log_fields
from trainer.worker.log_events import log_event


class LeaseHeartbeat(Heartbeat):
    """The heartbeat of a leased shard."""

    def __init__(self, database: Database, lease: Lease, leased_at: float, every_seconds: float) -> None:
        """`leased_at`: a monotonic time before the lease was taken."""
        self.progress = 0.0  # 0 to 1, set by the training
        super().__init__(
            lambda: renew_lease(database, lease, self.progress),
            every_seconds=every_seconds,
            lifetime_seconds=lease.seconds,
            renewed_at=leased_at,
            on_failure=lambda error: log_event(
                "heartbeat failed", level=logging.WARNING, shard=str(lease.shard_id), **error_log_fields(error)
            ),
        )
