"""Object stores together with direct access to their files or bucket, to inspect and to damage them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from registry.storage.folder import FolderStore
from registry.storage.s3 import S3Store
from registry.storage.store import ObjectStore, StoredItem

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class StoreFixture(Protocol):
    """A store, and the back door to it."""

    @property
    def store(self) -> ObjectStore: ...

    def overwrite(self, key: str, body: bytes) -> None:
        """Puts other bytes under a key, as a failing disk or a careless hand does."""

    def leave_unfinished(self, key: str, body: bytes) -> None:
        """Leaves behind what a writer leaves that is killed on its way."""


@dataclass(frozen=True)
class FolderFixture:
    store: FolderStore
    root: Path

    def overwrite(self, key: str, body: bytes) -> None:
        (self.root / key).write_bytes(body)

    def leave_unfinished(self, key: str, body: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.{'0' * 32}.part").write_bytes(body)


@dataclass(frozen=True)
class S3Fixture:
    store: S3Store
    client: "S3Client"
    bucket: str
    prefix: str

    def overwrite(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=body)

    def leave_unfinished(self, key: str, body: bytes) -> None:
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=self.prefix + key)["UploadId"]
        self.client.upload_part(Bucket=self.bucket, Key=self.prefix + key, UploadId=upload, PartNumber=1, Body=body)

    def delete(self, key: str) -> None:
        """What a plain DELETE does: in a bucket with versions it only hides the object."""
        self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key)

    def everything(self) -> list[str]:
        """The keys of all versions, markers and uploads, past the store."""
        versions = self.client.list_object_versions(Bucket=self.bucket, Prefix=self.prefix)
        uploads = self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=self.prefix)
        return [
            *(item["Key"] for item in versions.get("Versions", [])),
            *(item["Key"] for item in versions.get("DeleteMarkers", [])),
            *(item["Key"] for item in uploads.get("Uploads", [])),
        ]


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def keys_of(found: Iterable[StoredItem]) -> list[str]:
    return [one.key for one in found]


def sorted_items(found: Iterable[StoredItem]) -> list[tuple[str, int, str]]:
    return sorted((one.key, one.size_bytes, one.kind) for one in found)
