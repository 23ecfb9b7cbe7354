"""The registry's four parts together, as everything that spans more than one of them needs them."""

from dataclasses import dataclass

from registry.database import Database
from registry.objects.store import ObjectStore
from registry.scratch import ScratchHome
from registry.signing import Signer


@dataclass(frozen=True)
class Registry:
    """Where rows, objects and scratch files live, and who signs."""

    database: Database
    objects: ObjectStore
    scratch: ScratchHome
    signer: Signer
