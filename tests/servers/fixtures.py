"""Fixtures of servers, each started by the first test that needs it and stopped at the end of the session."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # boto3 and SQLAlchemy take a second, and most tests never need them
    from types_boto3_s3 import S3Client

    from registry.storage.folder import FolderStore
    from registry.storage.s3 import S3Store
    from registry.storage.s3_client import S3Settings
    from registry.storage.store import ObjectStore
    from tests.servers.postgres import PostgresServer
    from tests.servers.s3 import S3Server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that all tests of this process share."""
    from tests.servers.postgres import serve_postgres

    with serve_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh empty database."""
    url = postgres_server.make_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 service that all tests of this process share."""
    from tests.servers.s3 import serve_s3

    with serve_s3() as server:
        yield server


@pytest.fixture(scope="session")
def s3_client(s3_server: S3Server) -> Iterator[S3Client]:
    """The client of the stores, created once, because that takes longer than most tests."""
    from registry.storage.s3_client import make_client

    client = make_client(s3_server.settings(bucket="", prefix=""), attempts=3)
    yield client
    client.close()


@pytest.fixture(scope="session")
def s3_bucket(s3_client: S3Client) -> str:
    """A bucket without versions, which tests share, each with a prefix of its own."""
    bucket = f"test-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture
def s3_settings(s3_server: S3Server, s3_bucket: str) -> S3Settings:
    """Settings with an unused prefix."""
    return s3_server.settings(bucket=s3_bucket, prefix=f"tests/{uuid.uuid4()}")


@pytest.fixture
def s3_store(s3_settings: S3Settings, s3_client: S3Client) -> S3Store:
    """An empty store in a bucket without versions."""
    from registry.storage.s3 import S3Store

    return S3Store(s3_settings, s3_client)


@pytest.fixture
def folder_store(tmp_path: Path) -> FolderStore:
    """An empty store in a fresh folder."""
    from registry.storage.folder import FolderStore

    store = FolderStore(tmp_path / "objects")
    store.prepare()
    return store


@pytest.fixture(params=["folder", "s3"])
def object_store(request: pytest.FixtureRequest) -> ObjectStore:
    """An empty store of each kind."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store
