"""The marks of what was forgotten: they recognise the same picture when it comes again, and tell nothing else."""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Source, Tombstone
from registry.ingest.batches import batches


@dataclass(frozen=True)
class Burial:
    """When a picture was forgotten, and by which erasure."""

    erasure_id: UUID
    made_at: datetime


def tombstone_hash(key: bytes, digest: str) -> str:
    """The mark of a sample under its source's key: without the key, nobody can try pictures against it."""
    return hmac.digest(key, b"tombstone:" + bytes.fromhex(digest), hashlib.sha256).hex()


def find_tombstones(session: Session, source: Source, digests: Iterable[str]) -> dict[str, Burial]:
    """Those of the digests that were forgotten from this source."""
    found = {}
    for batch in batches(digests):
        digest_of = {tombstone_hash(source.key, digest): digest for digest in batch}
        marked = select(Tombstone).where(Tombstone.source_id == source.id, Tombstone.hash.in_(digest_of))
        for stone in session.scalars(marked):
            found[digest_of[stone.hash]] = Burial(stone.erasure_id, stone.created_at)
    return found


def remove_tombstones(session: Session, source: Source, digests: Iterable[str]) -> None:
    """Drops the marks of these digests, which may come back."""
    for batch in batches(digests):
        marks = [tombstone_hash(source.key, digest) for digest in batch]
        session.execute(delete(Tombstone).where(Tombstone.source_id == source.id, Tombstone.hash.in_(marks)))
