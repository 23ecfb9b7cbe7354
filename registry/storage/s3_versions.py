"""List and delete everything in a bucket: objects, old versions, delete markers and unfinished uploads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from botocore.exceptions import ClientError

from registry.storage.s3_client import error_code, error_status, is_missing_key
from registry.storage.store import StoreUnreachable

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import ObjectIdentifierTypeDef

PAGE_SIZE = 1000  # also the most that one request may delete


@dataclass(frozen=True)
class S3Item:
    """One thing in a bucket, with the ids that its removal needs."""

    key: str
    size_bytes: int
    kind: Literal["object", "version", "marker", "unfinished"]
    version: str | None = None
    upload: str | None = None


def list_visible(client: "S3Client", bucket: str, prefix: str) -> Iterator[S3Item]:
    """Yield the objects whose keys begin with the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": PAGE_SIZE}
    )
    for page in pages:
        for item in page.get("Contents", []):
            yield S3Item(item["Key"], item["Size"], "object")


def list_items(client: "S3Client", bucket: str, prefix: str) -> Iterator[S3Item]:
    """Yield everything whose key begins with the prefix."""
    try:
        yield from _list_versions(client, bucket, prefix)
    except ClientError as error:
        if error_code(error) != "NotImplemented" and error_status(error) != 501:
            raise
        # A service without versions has visible objects only.
        yield from list_visible(client, bucket, prefix)
    yield from _list_uploads(client, bucket, prefix)


def delete_items(client: "S3Client", bucket: str, items: Iterable[S3Item], name: str) -> Iterator[S3Item]:
    """Delete each item for good and yield it afterwards; StoreUnreachable if the service refuses one."""
    remaining = iter(items)
    while batch := list(islice(remaining, PAGE_SIZE)):
        for item in batch:
            if item.upload is not None:
                _abort(client, bucket, item.key, item.upload)
        _delete(client, bucket, [_identifier(item) for item in batch if item.upload is None], name)
        yield from batch


def _abort(client: "S3Client", bucket: str, key: str, upload: str) -> None:
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except ClientError as error:
        if not is_missing_key(error):
            raise


def _list_versions(client: "S3Client", bucket: str, prefix: str) -> Iterator[S3Item]:
    pages = client.get_paginator("list_object_versions").paginate(
        Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": PAGE_SIZE}
    )
    for page in pages:
        for item in page.get("Versions", []):
            kind: Literal["object", "version"] = "object" if item["IsLatest"] else "version"
            yield S3Item(item["Key"], item["Size"], kind, version=item["VersionId"])
        for marker in page.get("DeleteMarkers", []):
            yield S3Item(marker["Key"], 0, "marker", version=marker["VersionId"])


def _list_uploads(client: "S3Client", bucket: str, prefix: str) -> Iterator[S3Item]:
    pages = client.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": PAGE_SIZE}
    )
    for page in pages:
        for item in page.get("Uploads", []):
            size_bytes = _uploaded_bytes(client, bucket, item["Key"], item["UploadId"])
            if size_bytes is not None:
                yield S3Item(item["Key"], size_bytes, "unfinished", upload=item["UploadId"])


def _uploaded_bytes(client: "S3Client", bucket: str, key: str, upload: str) -> int | None:
    """Return the size of the uploaded parts, or None if the upload was completed or aborted meanwhile."""
    pages = client.get_paginator("list_parts").paginate(
        Bucket=bucket, Key=key, UploadId=upload, PaginationConfig={"PageSize": PAGE_SIZE}
    )
    try:
        return sum(part["Size"] for page in pages for part in page.get("Parts", []))
    except ClientError as error:
        if is_missing_key(error):
            return None
        raise


def _identifier(item: S3Item) -> "ObjectIdentifierTypeDef":
    return {"Key": item.key} if item.version is None else {"Key": item.key, "VersionId": item.version}


def _delete(client: "S3Client", bucket: str, objects: "list[ObjectIdentifierTypeDef]", name: str) -> None:
    if not objects:
        return
    answer = client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    # The response is a success even if no object was deleted.
    refused = [error for error in answer.get("Errors", []) if error.get("Code") not in ("NoSuchKey", "NoSuchVersion")]
    if refused:
        raise StoreUnreachable(
            f"{name} did not delete {len(refused)} of {len(objects)} objects, {refused[0].get('Key')} first "
            f"({refused[0].get('Code')}): allow the credentials to delete versions, and remove any object lock"
        )
