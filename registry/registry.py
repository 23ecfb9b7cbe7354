"""The registry's parts together, as everything that spans more than one of them needs them."""

from dataclasses import dataclass

from registry.database import Database
from registry.objects.store import ObjectStore
from registry.scratch import ScratchHome
from registry.signing import Signer


@dataclass(frozen=True)
class Registry:
    """Where rows, objects and scratch files live, who signs, and how much an owner may store."""

    database: Database
    objects: ObjectStore
    scratch: ScratchHome
    signer: Signer
    quota_bytes: int | None = None  # of owners of whom nothing else was said; None: no limit
