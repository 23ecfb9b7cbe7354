"""Showing, while a long work runs, that its holder lives."""

import threading
from types import TracebackType
from uuid import UUID

from registry.db.database import Database
from registry.errors import LeaseLost
from registry.storage import write_claims


class Heartbeat:
    """Renews a write claim from a thread of its own, until the block is left or somebody else has ended it."""

    def __init__(self, database: Database, claim: UUID, every_seconds: float = write_claims.CLAIM_SECONDS / 4) -> None:
        self._database = database
        self._claim = claim
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._lost: LeaseLost | None = None
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {claim}", daemon=True)

    def check(self) -> None:
        """Raises LeaseLost as soon as it is known that the work is in vain."""
        if self._lost is not None:
            raise LeaseLost(str(self._lost)) from self._lost

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                with self._database.write_transaction() as session:
                    write_claims.renew_claim(session, self._claim)
            except LeaseLost as error:
                self._lost = error
                return
            except Exception:  # noqa: S112  # a database that is away may come back in time; if not, committing tells
                continue
