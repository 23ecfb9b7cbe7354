"""The registry's parts together, as everything that spans more than one of them needs them."""

from dataclasses import dataclass

from registry.db.database import Database
from registry.log.signing import Signer
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore


@dataclass(frozen=True)
class Registry:
    """Where rows, objects and scratch files live, who signs, and how much an owner may store."""

    database: Database
    objects: ObjectStore
    scratch: ScratchSpace
    signer: Signer
    quota_bytes: int | None = None  # of owners of whom nothing else was said; None: no limit
