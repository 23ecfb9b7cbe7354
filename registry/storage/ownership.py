"""Rows and objects that belong together: the store holds the database's id.

A disk that is not mounted looks like an empty store, and a wrong setting leads to somebody else's. To forget there
would be to sign that nothing is left, and to repair there would destroy what is not ours.
"""

import hashlib
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from registry.db.database import Database
from registry.db.models.catalog import Sample
from registry.db.models.erasures import Erasure
from registry.db.models.installation import Installation
from registry.db.models.prompts import Prompt
from registry.errors import Conflict
from registry.storage.errors import ObjectDamaged, ObjectExists, ObjectMissing
from registry.storage.keys import sample_key
from registry.storage.store import ObjectStore

OWNERSHIP_KEY = "registry-id"  # the key of the copy


class StoreOwnershipError(Conflict):
    """The object store is not the one whose objects the database names."""

    status = 503


def mark_store(database: Database, objects: ObjectStore) -> None:
    """Makes a store the database's own; refused if it is another's, or lacks what should be there already."""
    with database.read_transaction() as session:
        registry_id = _id_of(session)
        is_forgetting = session.scalar(select(exists().where(Erasure.completed_at.is_(None))))
        known = _something_known(session)
    if known is None and is_forgetting:
        require_own_store(database, objects)  # no row is left to tell it by
        return
    try:
        if known is not None:
            objects.read(*known)
    except (ObjectMissing, ObjectDamaged):
        require_own_store(database, objects)  # this one may be lost; the mark tells whether all are
    try:
        objects.put(OWNERSHIP_KEY, _body(registry_id))
    except ObjectExists as error:
        raise _strange(objects) from error


def require_own_store(database: Database, objects: ObjectStore) -> None:
    """Refuses to go on with a store that does not hold the database's id."""
    with database.read_transaction() as session:
        body = _body(_id_of(session))
    try:
        objects.read(OWNERSHIP_KEY, hashlib.sha256(body).hexdigest())
    except ObjectMissing as error:
        raise StoreOwnershipError(
            f"{objects.name} does not hold this registry's objects: check the setting, and that its disk is mounted"
        ) from error
    except ObjectDamaged as error:
        raise _strange(objects) from error


def _something_known(session: Session) -> tuple[str, str] | None:
    """The key and digest of some object that rows name, if there is any."""
    prompt = session.execute(select(Prompt.key, Prompt.digest).limit(1)).one_or_none()
    if prompt is not None:
        return prompt.key, prompt.digest
    sample = session.scalars(select(Sample).limit(1)).one_or_none()
    if sample is not None:
        return sample_key(sample.source_id, sample.shard_id, sample.digest), sample.digest
    return None


def _strange(objects: ObjectStore) -> StoreOwnershipError:
    return StoreOwnershipError(f"{objects.name} belongs to another registry: name another folder, bucket or prefix")


def _id_of(session: Session) -> UUID:
    return session.scalars(select(Installation.registry_id)).one()


def _body(registry_id: UUID) -> bytes:
    return f"{registry_id}\n".encode()
