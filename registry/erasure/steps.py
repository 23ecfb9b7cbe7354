"""The steps of an erasure. Each can be retried, also by several processes at once, and is done once it is verified."""

import hashlib
from collections.abc import Callable
from uuid import UUID

from sqlalchemy import ColumnElement, Table, delete, select, tuple_
from sqlalchemy.orm import Session

from registry import failpoints
from registry.access.caller import Caller, require_admin
from registry.db.clock import now
from registry.db.database import Database
from registry.db.models.erasures import Erasure, ErasureStep, Replica
from registry.db.models.prompts import Prompt
from registry.db.models.users import Grant
from registry.db.models.write_claims import WriteClaim
from registry.erasure.target import count_rows, rows_of, target_of
from registry.erasure.vacuum import vacuum
from registry.errors import Conflict, NotFound
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import parse_key, shard_prefix
from registry.storage.ownership import require_own_store

BATCH = 5000  # rows deleted in one transaction, to keep it short
UNSERVE = "unserve"
VERIFY = "verify"  # the last: everything once more, together
_DIGEST_MODULUS = 1 << 256


class StepNotDone(Conflict):
    """The step waits for something, which the message names, and is retried."""


def check_unserved(registry: Registry, erasure: Erasure) -> None:
    """Check that no prompt and no grant is left; the transaction of the request deleted them."""
    with registry.database.read_transaction() as session:
        left = count_rows(session, target_of(erasure))
    if serving := [name for name in (Prompt.__tablename__, Grant.__tablename__) if name in left]:
        raise StepNotDone(
            f"{' and '.join(serving)} are left that the request should have deleted: run `alacarte doctor`"
        )


def delete_objects(registry: Registry, erasure: Erasure) -> None:
    """Delete everything under the erasure's prefixes; the first attempt records what was there."""
    require_own_store(registry.database, registry.objects)
    # The first folder by itself, prompts before pictures, so that there is a halfway point also with one prefix.
    for number, prefix in enumerate((*_record_objects(registry, erasure), *erasure.prefixes)):
        if number == 1:
            failpoints.hit_failpoint("erasure: half the objects")
        registry.objects.remove(prefix)
    for prefix in erasure.prefixes:
        if any(True for _ in registry.objects.list_all(prefix)):
            raise StepNotDone(f"objects are still written to {registry.objects.name} below {prefix}")
    failpoints.hit_failpoint("erasure: objects removed")


def wait_for_write_claims(registry: Registry, erasure: Erasure) -> None:
    """Wait for the processes that had bytes of the target at the request, and clean up after dead ones."""
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    with registry.database.read_transaction() as session:
        at = session.execute(select(now())).scalar_one()
        left = session.scalars(select(WriteClaim).where(WriteClaim.id.in_(map(UUID, erasure.write_claims)))).all()
    if left:
        first = min(left, key=lambda claim: claim.id)
        others = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        raise StepNotDone(_describe_claim(first, first.expires_at > at, registry, erasure) + others)


def wait_for_memory(registry: Registry, erasure: Erasure) -> None:
    """Wait until every live replica has evicted what was forgotten up to this erasure."""
    with registry.database.read_transaction() as session:
        late = select(Replica).where(Replica.expires_at > now(), Replica.epoch < erasure.epoch).order_by(Replica.name)
        names = [replica.name for replica in session.scalars(late)]
    if names:
        raise StepNotDone(
            f"in the memory of {', '.join(names[:5])}: a replica evicts it within seconds, or its registration expires"
        )


def delete_rows(registry: Registry, erasure: Erasure) -> None:
    """Delete all rows of the target, and make the database overwrite them."""
    target = target_of(erasure)
    # The row that the others refer to goes last, so that every one is counted.
    for table, condition in reversed(list(rows_of(target))):
        while _delete_batch(registry.database, erasure, table, condition):
            pass
    failpoints.hit_failpoint("erasure: rows removed")
    with registry.database.read_transaction() as session:
        left = count_rows(session, target)
    if left:
        raise StepNotDone(f"rows are left in {', '.join(sorted(left))}")
    if not vacuum(registry.database):
        raise StepNotDone("a long-running reader keeps deleted rows in the database: it is tried again")


def verify(registry: Registry, erasure: Erasure) -> None:
    """Verify everything once more, together; what a late writer left is removed, and counted separately."""
    check_unserved(registry, erasure)
    wait_for_write_claims(registry, erasure)
    wait_for_memory(registry, erasure)
    with registry.database.read_transaction() as session:
        left = count_rows(session, target_of(erasure))
    if left:
        delete_rows(registry, erasure)
    require_own_store(registry.database, registry.objects)
    late = 0
    for prefix in erasure.prefixes:
        late += registry.objects.remove(prefix).items
    if late:
        with registry.database.write_transaction() as session:
            _add_counts(session, erasure.id, VERIFY, late=late)
    # A removal is not proof: only a listing that shows nothing is.
    if any(True for prefix in erasure.prefixes for _ in registry.objects.list_all(prefix)):
        raise StepNotDone("some process still writes objects of what is forgotten: stop it")


STEPS: dict[str, Callable[[Registry, Erasure], None]] = {
    UNSERVE: check_unserved,
    "objects": delete_objects,
    "write_claims": wait_for_write_claims,
    "memory": wait_for_memory,
    "rows": delete_rows,
    VERIFY: verify,
}


def confirm_scratch(session: Session, caller: Caller, erasure_id: UUID) -> int:
    """Record an admin's statement that the scratch folders of dead processes are lost; the receipt counts them."""
    require_admin(caller)
    erasure = session.scalars(select(Erasure).where(Erasure.id == erasure_id).with_for_update()).one_or_none()
    if erasure is None:
        raise NotFound("erasure", erasure_id)
    if erasure.completed_at is not None:
        raise Conflict("this erasure is complete: there is nothing to confirm")
    lost = session.scalars(
        select(WriteClaim)
        .where(
            WriteClaim.id.in_(map(UUID, erasure.write_claims)),
            WriteClaim.expires_at <= now(),
            WriteClaim.scratch_id.is_not(None),
        )
        .with_for_update()
    ).all()
    if not lost:
        raise Conflict("no scratch folder is missing: every process with files of it is alive or has finished")
    for claim in lost:
        claim.scratch_id = None
    _add_counts(session, erasure.id, "write_claims", confirmed_by_hand=len(lost))
    chain.append_entry(session, caller.user_id, "erasure.confirmed", erasure=erasure.id, write_claims=len(lost))
    return len(lost)


def _describe_claim(claim: WriteClaim, is_alive: bool, registry: Registry, erasure: Erasure) -> str:
    process = f"{claim.process} ({claim.purpose})"
    if is_alive:
        return f"{process} has bytes of it: it removes them when its work ends or its heartbeat stops"
    if claim.scratch_id == registry.scratch.id:
        return f"{process} has bytes of it, and is still running although its heartbeat stopped: end that process"
    return (
        f"files of {process} are in a scratch folder that is not on this host: start a worker on that folder again, "
        f"or, if its disk is gone, run `alacarte erasure confirm {erasure.id}`"
    )


def _delete_batch(database: Database, erasure: Erasure, table: Table, condition: ColumnElement[bool]) -> bool:
    """Delete and count a batch of rows in one transaction; return whether there were any."""
    key = table.primary_key.columns
    with database.write_transaction() as session:
        _lock_step(session, erasure.id, "rows")  # of two processes at once, one counts each row
        batch = [tuple(row) for row in session.execute(select(*key).where(condition).limit(BATCH))]
        if batch:
            session.execute(delete(table).where(tuple_(*key).in_(batch)))
            _add_counts(session, erasure.id, "rows", **{table.name: len(batch)})
    return bool(batch)


def _record_objects(registry: Registry, erasure: Erasure) -> list[str]:
    """Record, once, what is there before any of it is deleted; return its first folder, if there is one."""
    first: list[str] = []
    objects = size_bytes = digest_sum = 0
    for prefix in erasure.prefixes:
        for found in registry.objects.list_all(prefix):
            objects, size_bytes = objects + 1, size_bytes + found.size_bytes
            # A sum of digests depends neither on the order of a listing nor on having all keys at once.
            digest_sum += int.from_bytes(hashlib.sha256(found.key.encode()).digest(), "big")
            if prefix.endswith("/"):
                folder = _shard_folder(found.key, prefix)
                first = [min(*first, folder)] if first else [folder]
    with registry.database.write_transaction() as session:
        step = _lock_step(session, erasure.id, "objects")
        if not step.found:
            keys = f"{digest_sum % _DIGEST_MODULUS:064x}"
            step.found = {"store": registry.objects.name, "objects": objects, "bytes": size_bytes, "keys": keys}
    return first


def _shard_folder(key: str, prefix: str) -> str:
    """Return the folder of the shard that has the key, or the whole prefix if the key is elsewhere."""
    place = parse_key(key)
    if place is None:
        return prefix
    shard = shard_prefix(place.source, place.shard)
    folder = f"{shard}{key.removeprefix(shard).partition('/')[0]}/"
    return folder if folder.startswith(prefix) else prefix


def _add_counts(session: Session, erasure_id: UUID, step: str, **counts: int) -> None:
    """Add to what earlier attempts of the step counted; a step that is done does not change any more."""
    row = _lock_step(session, erasure_id, step)
    if row.done_at is None:
        row.found = row.found | {name: row.found.get(name, 0) + count for name, count in counts.items()}


def _lock_step(session: Session, erasure_id: UUID, step: str) -> ErasureStep:
    """Return the step's row, locked until the transaction ends."""
    own = select(ErasureStep).where(ErasureStep.erasure_id == erasure_id, ErasureStep.name == step)
    return session.scalars(own.with_for_update(), execution_options={"populate_existing": True}).one()
