"""Searches for bytes without the code under test: in folders, in SQLite's files, and in a whole S3 bucket."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from registry.storage.s3_client import S3Settings
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


def find_bytes(needles: Collection[bytes], *roots: Path) -> list[tuple[str, bytes]]:
    """Return every file below the roots, also hidden ones, with the needles in its bytes or name."""
    found = []
    for root in roots:
        for file in sorted(root.rglob("*")):
            if file.is_file():
                body = str(file.relative_to(root)).encode() + b"\0" + file.read_bytes()
                found += [(str(file.relative_to(root)), needle) for needle in needles if needle in body]
    return found


def list_bucket(server: S3Server, settings: S3Settings) -> list[str]:
    """Return every version, delete marker and unfinished upload in the bucket below the prefix."""
    below = f"{settings.prefix}/"
    client: S3Client = server.client()
    found = []
    for page in client.get_paginator("list_object_versions").paginate(Bucket=settings.bucket, Prefix=below):
        found += [version["Key"] for version in page.get("Versions", [])]
        found += [f"{marker['Key']} (marker)" for marker in page.get("DeleteMarkers", [])]
    for uploads in client.get_paginator("list_multipart_uploads").paginate(Bucket=settings.bucket, Prefix=below):
        found += [f"{upload['Key']} (unfinished)" for upload in uploads.get("Uploads", [])]
    return sorted(found)
