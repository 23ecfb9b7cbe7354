"""The object store holds the id of the database it belongs to, and every erasure and repair checks it first.

Otherwise a disk that is not mounted would pass for an empty store, and an erasure would certify that nothing is left;
and a wrong setting would let a repair destroy the objects of another registry.
"""

import hashlib
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from registry.db.database import Database
from registry.db.models.catalog import Sample
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt
from registry.db.models.registry import Installation
from registry.errors import Conflict
from registry.storage.keys import sample_key
from registry.storage.store import ObjectDamaged, ObjectExists, ObjectMissing, ObjectStore

OWNERSHIP_KEY = "registry-id"  # the key of the object with the database's id


class StoreOwnershipError(Conflict):
    """The object store does not belong to the database."""

    status = 503


def mark_store(database: Database, objects: ObjectStore) -> None:
    """Write the database's id to the store; StoreOwnershipError if it is another's or lacks the database's objects."""
    with database.read_transaction() as session:
        registry_id = _registry_id(session)
        has_open_erasure = session.scalar(select(exists().where(Erasure.completed_at.is_(None))))
        example = _find_object(session)
    if example is None and has_open_erasure:
        require_own_store(database, objects)  # no row is left to compare with the store
        return
    try:
        if example is not None:
            objects.read(*example)
    except (ObjectMissing, ObjectDamaged):
        require_own_store(database, objects)  # one object may be lost; the id shows whether all are
    try:
        objects.put(OWNERSHIP_KEY, _body(registry_id))
    except ObjectExists as error:
        raise _belongs_to_another(objects) from error


def require_own_store(database: Database, objects: ObjectStore) -> None:
    """Raise StoreOwnershipError unless the store has the database's id."""
    with database.read_transaction() as session:
        body = _body(_registry_id(session))
    try:
        objects.read(OWNERSHIP_KEY, hashlib.sha256(body).hexdigest())
    except ObjectMissing as error:
        raise StoreOwnershipError(
            f"{objects.name} does not have this registry's objects: "
            "check ALACARTE_OBJECTS, and that its disk is mounted"
        ) from error
    except ObjectDamaged as error:
        raise _belongs_to_another(objects) from error


def _find_object(session: Session) -> tuple[str, str] | None:
    """Return the key and digest of some object that a row names; None if there is none."""
    prompt = session.execute(select(Prompt.key, Prompt.digest).limit(1)).one_or_none()
    if prompt is not None:
        return prompt.key, prompt.digest
    sample = session.scalars(select(Sample).limit(1)).one_or_none()
    if sample is not None:
        return sample_key(sample.source_id, sample.shard_id, sample.digest), sample.digest
    return None


def _belongs_to_another(objects: ObjectStore) -> StoreOwnershipError:
    return StoreOwnershipError(
        f"{objects.name} belongs to another registry: set ALACARTE_OBJECTS to another folder, bucket or prefix"
    )


def _registry_id(session: Session) -> UUID:
    return session.scalars(select(Installation.registry_id)).one()


def _body(registry_id: UUID) -> bytes:
    return f"{registry_id}\n".encode()
