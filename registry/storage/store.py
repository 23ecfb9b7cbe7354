"""The one protocol of object stores: what the registry asks of a home for bytes, whichever home it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class StoredItem:
    """One thing that lies in a store, visible or not.

    An old `version` and a delete `marker` lie in buckets with versions; `unfinished` is an upload, or a file,
    whose writer has not made it visible (yet), and whatever else lies there without being an object.
    """

    key: str
    size_bytes: int
    kind: Literal["object", "version", "marker", "unfinished"]


@dataclass(frozen=True)
class RemovedCount:
    """How much was removed."""

    things: int
    bytes: int


class ObjectStore(Protocol):
    """A home for bytes under keys, used from many threads at once.

    A prefix is a whole key, and means exactly that key; or it ends in "/", and means everything below;
    or it is empty, and means everything. No key may be the folder of another.
    Everything raises StoreUnreachable when the home cannot do its part.
    """

    @property
    def name(self) -> str:
        """What to call the store before people and in receipts."""

    def put(self, key: str, body: bytes | Path) -> None:
        """Durable on return; ObjectExists if the key holds other bytes, silence if it holds the very same."""

    def read(self, key: str, digest: str) -> bytes:
        """The bytes, whose SHA-256 is the digest; otherwise ObjectMissing or ObjectDamaged."""

    def download(self, key: str, digest: str, path: Path) -> None:
        """The bytes in a file, checked as by `read`; the path is not touched on failure."""

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """The visible objects, in the order of their keys."""

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """All that lies there: objects, old versions, delete markers, and whatever is unfinished."""

    def remove(self, prefix: str) -> RemovedCount:
        """Whatever `traces` would show is gone, durably; nothing to remove is no error."""

    def check(self) -> None:
        """The store can be reached, written and emptied; it makes nothing that is missing."""

    def prepare(self) -> None:
        """The folder or bucket exists, made now if it was missing."""
