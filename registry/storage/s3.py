"""Objects in a bucket of an S3-compatible service: complete, never overwritten, and removed with all their versions."""

import base64
import hashlib
import io
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from botocore.exceptions import BotoCoreError, ClientError

from registry.storage.files import CHUNK_BYTES, iter_chunks, open_body, sha256_hex, write_verified
from registry.storage.keys import is_under_prefix, probe_key, validate_key, validate_prefix
from registry.storage.s3_client import (
    ATTEMPTS,
    S3Settings,
    error_code,
    error_status,
    is_missing_key,
    make_client,
    translate_s3_errors,
)
from registry.storage.s3_versions import S3Item, delete_items, list_items, list_visible
from registry.storage.store import (
    ObjectDamaged,
    ObjectExists,
    ObjectMissing,
    RemovedCount,
    StoredItem,
    StoreUnreachable,
)

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client
    from types_boto3_s3.literals import BucketLocationConstraintType
    from types_boto3_s3.type_defs import CompletedPartTypeDef

ROUNDS = 8  # how often a put may meet another writer, and a removal may find new items
PAUSE_S = 0.05
PART_BYTES = 8 * 1024 * 1024

# `exists`: the key has an object; `retry`: another writer or a removal interfered.
UploadResult = Literal["created", "exists", "retry"]


class S3Store:
    """The object store that many hosts share: a key is a key below the prefix of the settings."""

    def __init__(self, settings: S3Settings, client: "S3Client | None" = None) -> None:
        self._settings = settings
        self._bucket = settings.bucket
        self._prefix = f"{settings.prefix.strip('/')}/" if settings.prefix.strip("/") else ""
        validate_prefix(self._prefix)
        self._shared_client = client

    @property
    def name(self) -> str:
        """Return the name of the store for messages and receipts."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object durably; ObjectExists if the key has other bytes, no error if it has the same."""
        s3_key = self._prefix + validate_key(key)
        with open_body(body) as file, translate_s3_errors(self.name):
            for attempt in range(ROUNDS):
                if attempt:
                    file.seek(0)
                    time.sleep(random.uniform(0, PAUSE_S * 2**attempt))
                result = upload(self._client, self._bucket, s3_key, file)
                if result == "created":
                    return
                if result == "exists":
                    is_same = self._has_same_bytes(key, file)
                    if is_same:
                        return
                    if is_same is False:
                        raise ObjectExists(key, self.name)
        raise StoreUnreachable(f"{key} in {self.name} changes as fast as it is written: stop the other writers")

    def read(self, key: str, digest: str) -> bytes:
        """Return the bytes with this SHA-256; otherwise raise ObjectMissing or ObjectDamaged."""
        with translate_s3_errors(self.name), self._open_object(key) as stream:
            content = stream.read()
        if sha256_hex([content]) != digest:
            raise ObjectDamaged(key, self.name)
        return content

    def download(self, key: str, digest: str, path: Path) -> None:
        """Write the bytes to a file, verified as by `read`; on failure the path is unchanged."""
        with translate_s3_errors(self.name), self._open_object(key) as stream:
            if not write_verified(stream.iter_chunks(CHUNK_BYTES), digest, path):
                raise ObjectDamaged(key, self.name)

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """Yield the visible objects, in the order in which the service lists keys."""
        validate_prefix(prefix)
        return self._to_stored_items(prefix, list_visible(self._client, self._bucket, self._prefix + prefix))

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """Yield everything: objects, old versions, delete markers and unfinished uploads."""
        validate_prefix(prefix)
        return self._to_stored_items(prefix, list_items(self._client, self._bucket, self._prefix + prefix))

    def remove(self, prefix: str) -> RemovedCount:
        """Remove whatever `list_all` would yield, until a last listing is empty."""
        validate_prefix(prefix)
        items = size_bytes = 0
        for _ in range(ROUNDS):
            with translate_s3_errors(self.name):
                listed = self._filter(prefix, list_items(self._client, self._bucket, self._prefix + prefix))
                removed = [item.size_bytes for item in delete_items(self._client, self._bucket, listed, self.name)]
            if not removed:
                return RemovedCount(items, size_bytes)
            items += len(removed)
            size_bytes += sum(removed)
        raise StoreUnreachable(f"{self.name} fills as fast as it is emptied: stop what writes below {prefix!r}")

    def check(self) -> None:
        """Check that the bucket answers, can be written and deleted from, and never overwrites; do not create it."""
        client = self._single_attempt_client
        probe = self._prefix + probe_key()
        with translate_s3_errors(self.name):
            results = [upload(client, self._bucket, probe, io.BytesIO()) for _ in range(2)]
            for _ in delete_items(client, self._bucket, list_items(client, self._bucket, probe), self.name):
                pass
        if results != ["created", "exists"]:
            raise StoreUnreachable(
                f"{self.name} overwrites objects despite If-None-Match: use a service that supports it"
            )

    def prepare(self) -> None:
        """Create the bucket if it is missing."""
        with translate_s3_errors(self.name):
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if error_status(error) != 404:
                    raise
                self._create_bucket()

    @cached_property
    def _client(self) -> "S3Client":
        # Made at the first use, because that takes longer than most requests; stores may share one.
        return self._shared_client or make_client(self._settings, attempts=ATTEMPTS)

    @cached_property
    def _single_attempt_client(self) -> "S3Client":
        # For `check`, which should fail at once rather than retry.
        return make_client(self._settings, attempts=1)

    def _create_bucket(self) -> None:
        try:
            region = self._settings.region
            if region is None or region == "us-east-1":  # the one region that may not be named
                self._client.create_bucket(Bucket=self._bucket)
            else:
                constraint = cast("BucketLocationConstraintType", region)
                self._client.create_bucket(
                    Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": constraint}
                )
        except ClientError as error:
            if error_code(error) != "BucketAlreadyOwnedByYou":
                raise

    @contextmanager
    def _open_object(self, key: str) -> "Iterator[StreamingBody]":
        try:
            stream = self._client.get_object(Bucket=self._bucket, Key=self._prefix + validate_key(key))["Body"]
        except ClientError as error:
            if is_missing_key(error):
                raise ObjectMissing(key, self.name) from error
            raise
        with closing(stream):
            yield stream

    def _has_same_bytes(self, key: str, file: BinaryIO) -> bool | None:
        """Return whether the key has the bytes of the file; None if it has no object any more."""
        try:
            with self._open_object(key) as stream:
                digest = sha256_hex(stream.iter_chunks(CHUNK_BYTES))
        except ObjectMissing:
            return None
        file.seek(0)
        return digest == sha256_hex(iter_chunks(file))

    def _to_stored_items(self, prefix: str, items: Iterator[S3Item]) -> Iterator[StoredItem]:
        with translate_s3_errors(self.name):
            for item in self._filter(prefix, items):
                yield StoredItem(item.key.removeprefix(self._prefix), item.size_bytes, item.kind)

    def _filter(self, prefix: str, items: Iterator[S3Item]) -> Iterator[S3Item]:
        """Drop keys that only begin with the same letters as the prefix."""
        return (item for item in items if is_under_prefix(item.key, self._prefix + prefix))


def upload(client: "S3Client", bucket: str, key: str, file: BinaryIO) -> UploadResult:
    """Upload the rest of the file to a key without an object, in parts if it is large; never overwrite."""
    # Two parts are read ahead, so that the size need not be known and the body is never in memory as a whole.
    first, second = file.read(PART_BYTES), file.read(PART_BYTES)
    try:
        if second:
            _upload_parts(client, bucket, key, chain([first, second], iter_chunks(file, PART_BYTES)))
        else:
            client.put_object(Bucket=bucket, Key=key, Body=first, ChecksumSHA256=_checksum(first), IfNoneMatch="*")
    except ClientError as error:
        if error_status(error) == 412:
            return "exists"
        if error_code(error) in ("ConditionalRequestConflict", "NoSuchUpload"):
            return "retry"
        raise
    return "created"


def _upload_parts(client: "S3Client", bucket: str, key: str, chunks: Iterable[bytes]) -> None:
    started = client.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm="SHA256")
    upload_id = started["UploadId"]
    parts: list[CompletedPartTypeDef] = []
    try:
        for number, chunk in enumerate(chunks, start=1):
            checksum = _checksum(chunk)
            part = client.upload_part(
                Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=chunk, ChecksumSHA256=checksum
            )
            parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": checksum})
        client.complete_multipart_upload(
            Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )
    except BaseException:
        # If this fails too, the unfinished upload stays, and a removal finds it.
        with suppress(BotoCoreError, ClientError):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
        raise


def _checksum(chunk: bytes) -> str:
    return base64.b64encode(hashlib.sha256(chunk).digest()).decode()
