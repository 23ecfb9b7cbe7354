"""Objects in a bucket of any S3-compatible service: whole, never overwritten, and removed with all their versions."""

import io
import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from botocore.exceptions import ClientError

from registry.storage.errors import ObjectDamaged, ObjectExists, ObjectMissing, StoreUnreachable
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
from registry.storage.s3_multipart import upload
from registry.storage.s3_versions import S3Item, delete_items, list_items, list_visible
from registry.storage.store import RemovedCount, StoredItem
from registry.storage.streams import CHUNK_BYTES, iter_chunks, open_body, sha256_hex, write_verified

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client
    from types_boto3_s3.literals import BucketLocationConstraintType

# How often a put may meet a rival, and a removal find more than it left.
ROUNDS = 8
PAUSE_S = 0.05


class S3Store:
    """The home of objects that many hosts share: a key is a key below the settings' prefix."""

    def __init__(self, settings: S3Settings, client: "S3Client | None" = None) -> None:
        self._settings = settings
        self._bucket = settings.bucket
        self._prefix = f"{settings.prefix.strip('/')}/" if settings.prefix.strip("/") else ""
        validate_prefix(self._prefix)
        self._shared_client = client

    @property
    def name(self) -> str:
        """What to call the store before people and in receipts."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def put(self, key: str, body: bytes | Path) -> None:
        """Durable on return; ObjectExists if the key holds other bytes, silence if it holds the very same."""
        place = self._prefix + validate_key(key)
        with open_body(body) as file, translate_s3_errors(self.name):
            for attempt in range(ROUNDS):
                if attempt:
                    file.seek(0)
                    time.sleep(random.uniform(0, PAUSE_S * 2**attempt))
                outcome = upload(self._client, self._bucket, place, file)
                if outcome == "put":
                    return
                if outcome == "taken":
                    is_same = self._holds(key, file)
                    if is_same:
                        return
                    if is_same is False:
                        raise ObjectExists(key, self.name)
        raise StoreUnreachable(f"{key} in {self.name} changes as fast as it is put: stop what else writes it")

    def read(self, key: str, digest: str) -> bytes:
        """The bytes, whose SHA-256 is the digest; otherwise ObjectMissing or ObjectDamaged."""
        with translate_s3_errors(self.name), self._opened(key) as stream:
            content = stream.read()
        if sha256_hex([content]) != digest:
            raise ObjectDamaged(key, self.name)
        return content

    def download(self, key: str, digest: str, path: Path) -> None:
        """The bytes in a file, checked as by `read`; the path is not touched on failure."""
        with translate_s3_errors(self.name), self._opened(key) as stream:
            if not write_verified(stream.iter_chunks(CHUNK_BYTES), digest, path):
                raise ObjectDamaged(key, self.name)

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """The visible objects, in the order in which the service lists keys."""
        validate_prefix(prefix)
        return self._found(prefix, list_visible(self._client, self._bucket, self._prefix + prefix))

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """All that lies there: objects, old versions, delete markers and unfinished uploads."""
        validate_prefix(prefix)
        return self._found(prefix, list_items(self._client, self._bucket, self._prefix + prefix))

    def remove(self, prefix: str) -> RemovedCount:
        """Whatever `traces` would show is gone, and a last look showed nothing."""
        validate_prefix(prefix)
        things = size_bytes = 0
        for _ in range(ROUNDS):
            with translate_s3_errors(self.name):
                wanted = self._meant(prefix, list_items(self._client, self._bucket, self._prefix + prefix))
                gone = [trace.size_bytes for trace in delete_items(self._client, self._bucket, wanted, self.name)]
            if not gone:
                return RemovedCount(things, size_bytes)
            things += len(gone)
            size_bytes += sum(gone)
        raise StoreUnreachable(f"{self.name} fills as fast as it is emptied: stop what writes below {prefix!r}")

    def check(self) -> None:
        """The bucket answers, is written, never overwrites, and can be emptied; it is not made if it is missing."""
        client = self._impatient_client
        probe = self._prefix + probe_key()
        with translate_s3_errors(self.name):
            outcomes = [upload(client, self._bucket, probe, io.BytesIO()) for _ in range(2)]
            for _ in delete_items(client, self._bucket, list_items(client, self._bucket, probe), self.name):
                pass
        if outcomes != ["put", "taken"]:
            raise StoreUnreachable(f"{self.name} overwrites objects despite If-None-Match: use a service that does not")

    def prepare(self) -> None:
        """The bucket exists, made now if it was missing."""
        with translate_s3_errors(self.name):
            try:
                self._client.head_bucket(Bucket=self._bucket)
            except ClientError as error:
                if error_status(error) != 404:
                    raise
                self._make_bucket()

    @cached_property
    def _client(self) -> "S3Client":
        """Making one takes longer than most requests: it waits for the first, and stores may share theirs."""
        return self._shared_client or make_client(self._settings, attempts=ATTEMPTS)

    @cached_property
    def _impatient_client(self) -> "S3Client":
        """Whoever asks whether the store can be reached does not want to wait through retries."""
        return make_client(self._settings, attempts=1)

    def _make_bucket(self) -> None:
        try:
            region = self._settings.region
            if region is None or region == "us-east-1":  # the one region that may not be named
                self._client.create_bucket(Bucket=self._bucket)
            else:
                place = cast("BucketLocationConstraintType", region)
                self._client.create_bucket(Bucket=self._bucket, CreateBucketConfiguration={"LocationConstraint": place})
        except ClientError as error:
            if error_code(error) != "BucketAlreadyOwnedByYou":
                raise

    @contextmanager
    def _opened(self, key: str) -> "Iterator[StreamingBody]":
        try:
            stream = self._client.get_object(Bucket=self._bucket, Key=self._prefix + validate_key(key))["Body"]
        except ClientError as error:
            if is_missing_key(error):
                raise ObjectMissing(key, self.name) from error
            raise
        with closing(stream):
            yield stream

    def _holds(self, key: str, file: BinaryIO) -> bool | None:
        """Whether the key holds the file's bytes; None if it holds nothing any more."""
        try:
            with self._opened(key) as stream:
                there = sha256_hex(stream.iter_chunks(CHUNK_BYTES))
        except ObjectMissing:
            return None
        file.seek(0)
        return there == sha256_hex(iter_chunks(file))

    def _found(self, prefix: str, traces: Iterator[S3Item]) -> Iterator[StoredItem]:
        with translate_s3_errors(self.name):
            for trace in self._meant(prefix, traces):
                yield StoredItem(trace.key.removeprefix(self._prefix), trace.size_bytes, trace.kind)

    def _meant(self, prefix: str, traces: Iterator[S3Item]) -> Iterator[S3Item]:
        """Of what the service lists, which goes by first letters, only what the prefix means."""
        return (trace for trace in traces if is_under_prefix(trace.key, self._prefix + prefix))
