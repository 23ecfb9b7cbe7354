"""The protocol of object stores, and their errors. No message holds credentials or a path of the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from registry.errors import DomainError


class ObjectMissing(DomainError):
    """A row names an object that the store does not have."""

    status = 500

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{store} does not have {key}, which the database names: restore it from a backup")


class ObjectDamaged(DomainError):
    """The bytes under a key do not have the expected digest."""

    status = 500

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{key} in {store} is damaged: restore it from a backup")


class ObjectExists(DomainError):
    """The key already has other bytes, which were not overwritten."""

    status = 409

    def __init__(self, key: str, store: str) -> None:
        super().__init__(f"{key} in {store} already exists with other bytes: objects are never overwritten")


class StoreUnreachable(DomainError):
    """The store does not answer, refuses the request, or is full; the message says what to do."""

    status = 503


@dataclass(frozen=True)
class StoredItem:
    """One thing in a store, visible or not.

    `version` (an old one) and `marker` (of a deletion) occur in buckets with versions. `unfinished` is an upload or
    file that its writer has not completed, and anything else that is not an object.
    """

    key: str
    size_bytes: int
    kind: Literal["object", "version", "marker", "unfinished"]


@dataclass(frozen=True)
class RemovedCount:
    """How much was removed."""

    items: int
    size_bytes: int


class ObjectStore(Protocol):
    """Bytes under keys, for many threads at once.

    A prefix is either a whole key, which means exactly that key; or it ends in "/", which means everything below; or
    it is empty, which means everything. No key is the folder of another.
    Every method raises StoreUnreachable if the store fails.
    """

    @property
    def name(self) -> str:
        """Return the name of the store for messages and receipts."""

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object durably; ObjectExists if the key has other bytes, no error if it has the same."""

    def read(self, key: str, digest: str) -> bytes:
        """Return the bytes with this SHA-256; otherwise raise ObjectMissing or ObjectDamaged."""

    def download(self, key: str, digest: str, path: Path) -> None:
        """Write the bytes to a file, verified as by `read`; on failure the path is unchanged."""

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """Yield the visible objects, sorted by key."""

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """Yield everything: objects, old versions, delete markers and unfinished uploads."""

    def remove(self, prefix: str) -> RemovedCount:
        """Remove durably whatever `list_all` would yield; an empty prefix is no error."""

    def check(self) -> None:
        """Check that the store can be reached, written and deleted from; create nothing that is missing."""

    def prepare(self) -> None:
        """Create the folder or bucket if it is missing."""
