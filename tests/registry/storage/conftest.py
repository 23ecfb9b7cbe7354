"""Empty object stores of every kind: a folder, and buckets without, with and with suspended versions."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.storage.folder import FolderStore
from registry.storage.s3 import S3Store
from registry.storage.s3_client import S3Settings
from tests.registry.storage.store_fixtures import FolderFixture, S3Fixture, StoreFixture
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture
def folder_fixture(folder_store: FolderStore, tmp_path: Path) -> FolderFixture:
    return FolderFixture(folder_store, tmp_path / "objects")


@pytest.fixture(scope="session")
def raw_client(s3_server: S3Server) -> Iterator["S3Client"]:
    """A plain client, that shares nothing with the code under test."""
    client = s3_server.client()
    yield client
    client.close()


def bucket_in(client: "S3Client") -> str:
    bucket = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture(scope="session")
def versioned_bucket(raw_client: "S3Client") -> str:
    bucket = bucket_in(raw_client)
    raw_client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture(scope="session")
def suspended_bucket(raw_client: "S3Client") -> str:
    return bucket_in(raw_client)


@pytest.fixture
def s3_fixture(raw_client: "S3Client", s3_settings: S3Settings, s3_store: S3Store) -> S3Fixture:
    """A bucket that keeps the last version alone."""
    return S3Fixture(s3_store, raw_client, s3_settings.bucket, f"{s3_settings.prefix}/")


@pytest.fixture
def versioned_fixture(
    s3_fixture: S3Fixture, s3_settings: S3Settings, s3_client: "S3Client", versioned_bucket: str
) -> S3Fixture:
    """A bucket that keeps every version."""
    store = S3Store(replace(s3_settings, bucket=versioned_bucket), s3_client)
    return replace(s3_fixture, store=store, bucket=versioned_bucket)


@pytest.fixture
def suspended_fixture(
    s3_fixture: S3Fixture, s3_settings: S3Settings, s3_client: "S3Client", suspended_bucket: str
) -> S3Fixture:
    """A bucket that kept every version until something lay in it."""
    store = S3Store(replace(s3_settings, bucket=suspended_bucket), s3_client)
    suspended = replace(s3_fixture, store=store, bucket=suspended_bucket)
    suspended.client.put_bucket_versioning(Bucket=suspended.bucket, VersioningConfiguration={"Status": "Enabled"})
    suspended.overwrite("from/then", b"one")
    suspended.overwrite("from/then", b"three")
    suspended.client.put_bucket_versioning(Bucket=suspended.bucket, VersioningConfiguration={"Status": "Suspended"})
    return suspended


@pytest.fixture(params=["folder", "s3", "versioned", "suspended"])
def store_fixture(request: pytest.FixtureRequest) -> StoreFixture:
    found: StoreFixture = request.getfixturevalue(f"{request.param}_fixture")
    return found


@pytest.fixture(params=["s3", "versioned", "suspended"])
def bucket_fixture(request: pytest.FixtureRequest) -> S3Fixture:
    found: S3Fixture = request.getfixturevalue(f"{request.param}_fixture")
    return found
