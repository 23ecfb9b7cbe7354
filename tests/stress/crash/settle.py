"""Wait for the end of all work after a crash run, and list what is unfinished."""

import re
from pathlib import Path

from sqlalchemy import select, update

from registry.db.clock import now, seconds_from_now
from registry.db.models.catalog import Shard
from registry.db.models.erasures import Erasure, ErasureStep, Replica
from registry.db.models.write_claims import WriteClaim
from registry.registry import Registry
from registry.training.queue import is_trained


def unfinished(registry: Registry) -> list[str]:
    with registry.database.read_transaction() as session:
        shards = session.scalars(select(Shard).where(~is_trained(Shard))).all()
        steps = select(ErasureStep).join(Erasure).where(Erasure.completed_at.is_(None), ErasureStep.done_at.is_(None))
        waiting = session.scalars(steps).all()
        open_erasures = session.scalars(select(Erasure.id).where(Erasure.completed_at.is_(None))).all()
        claims = session.scalars(select(WriteClaim)).all()
    return [
        *(f"shard {one.id} is not trained: {one.error}, worker {one.worker}" for one in shards),
        *(f"erasure {one} is open" for one in open_erasures),
        *(f"erasure {one.erasure_id} waits at {one.name}: {one.error}" for one in waiting),
        *(f"{one.process} holds {one.source_id} ({one.purpose})" for one in claims),
    ]


def expire_leases_of_dead(registry: Registry) -> None:
    """Expire the leases, write claims and registrations of dead processes, and end all back-offs."""
    with registry.database.write_transaction() as session:
        processes = [WriteClaim.process, Shard.worker, Replica.name]
        known = {name for column in processes for name in session.scalars(select(column).where(column.is_not(None)))}
        dead = [name for name in known if not _is_alive(str(name))]
        session.execute(update(WriteClaim).where(WriteClaim.process.in_(dead)).values(expires_at=seconds_from_now(-1)))
        session.execute(update(Shard).where(Shard.worker.in_(dead)).values(expires_at=seconds_from_now(-1)))
        session.execute(update(Replica).where(Replica.name.in_(dead)).values(expires_at=seconds_from_now(-1)))
        session.execute(update(Shard).values(not_before=None))
        session.execute(update(Erasure).where(Erasure.completed_at.is_(None)).values(not_before=now()))


def _is_alive(holder: str) -> bool:
    """Whether the process of a holder, which is named `host:pid`, exists."""
    match = re.fullmatch(r".*:(\d+)", holder)
    return match is not None and Path("/proc", match[1]).exists()
