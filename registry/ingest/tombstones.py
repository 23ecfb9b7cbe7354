"""Tombstones: keyed hashes of forgotten pictures, which only recognise the same picture when it is uploaded again."""

import hashlib
import hmac
from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.catalog import Source, Tombstone
from registry.db.paging import batched


def tombstone_hash(key: bytes, digest: str) -> str:
    """Return the hash of a sample under its source's key: without the key, nobody can test pictures against it."""
    return hmac.digest(key, b"tombstone:" + bytes.fromhex(digest), hashlib.sha256).hex()


def find_tombstones(session: Session, source: Source, digests: Iterable[str]) -> dict[str, Tombstone]:
    """Return, by digest, the tombstones of those pictures that were forgotten from this source."""
    found = {}
    for batch in batched(digests):
        digest_by_hash = {tombstone_hash(source.key, digest): digest for digest in batch}
        own = select(Tombstone).where(Tombstone.source_id == source.id, Tombstone.hash.in_(digest_by_hash))
        for tombstone in session.scalars(own):
            found[digest_by_hash[tombstone.hash]] = tombstone
    return found


def add_tombstones(session: Session, source: Source, erasure_id: UUID, digests: Iterable[str]) -> None:
    """Add tombstones of these pictures, in place of those that earlier erasures left."""
    digests = list(digests)
    remove_tombstones(session, source, digests)
    for batch in batched(digests):
        rows = [
            {"source_id": source.id, "hash": tombstone_hash(source.key, digest), "erasure_id": erasure_id}
            for digest in batch
        ]
        session.execute(insert(Tombstone).values(created_at=now()), rows)


def remove_tombstones(session: Session, source: Source, digests: Iterable[str]) -> None:
    """Remove the tombstones of these pictures, which may come back."""
    for batch in batched(digests):
        hashes = [tombstone_hash(source.key, digest) for digest in batch]
        session.execute(delete(Tombstone).where(Tombstone.source_id == source.id, Tombstone.hash.in_(hashes)))
