"""The servers as fixtures: each is started when the first test asks for it, and lives as long as the session."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.objects.folder import FolderStore
from registry.objects.s3 import S3Store
from registry.objects.s3_client import S3Settings
from registry.objects.store import ObjectStore
from tests.servers.postgres import PostgresServer, serve_postgres
from tests.servers.s3 import REGION, S3Server, serve_s3


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that all tests of this process share."""
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
    with serve_s3() as server:
        yield server


@pytest.fixture
def s3_settings(s3_server: S3Server) -> S3Settings:
    """A bucket of the test's own, not made yet, with a prefix in it."""
    return S3Settings(
        bucket=f"test-{uuid.uuid4().hex}",
        prefix="below/this",
        endpoint=s3_server.endpoint,
        region=REGION,
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
    )


@pytest.fixture
def s3_store(s3_settings: S3Settings) -> Iterator[S3Store]:
    """An empty store in a fresh bucket without versions."""
    store = S3Store(s3_settings)
    store.prepare()
    yield store
    store.close()


@pytest.fixture
def folder_store(tmp_path: Path) -> FolderStore:
    """An empty store in a fresh folder."""
    store = FolderStore(tmp_path / "objects")
    store.prepare()
    return store


@pytest.fixture(params=["folder", "s3"])
def object_store(request: pytest.FixtureRequest) -> ObjectStore:
    """An empty store, in each of the homes."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store
