"""Fixtures of a registry on both backends: SQLite with a folder, and PostgreSQL with S3."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from registry.db import migrate
from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore
from tests.servers.postgres import PostgresServer

# For tests that do not depend on the backend.
sqlite_only = pytest.mark.parametrize("backend", ["sqlite-folder"], indirect=True)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a migrated database without rows, which others are copied from."""
    url = postgres_server.make_database()
    database = Database(url)
    migrate.upgrade(database)
    database.close()
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a migrated database without rows."""
    file = tmp_path_factory.mktemp("template") / "registry.db"
    database = Database(f"sqlite:///{file}")
    migrate.upgrade(database)
    database.close()  # this also moves everything from the WAL into the file
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a new migrated database without rows."""
    file = tmp_path / "registry.db"
    file.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{file}"


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The URL of a new migrated database without rows."""
    url = postgres_server.make_database(template=postgres_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite-folder", "postgres-s3"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest) -> str:
    """The URL of a migrated database without rows."""
    return str(request.getfixturevalue("sqlite_url" if backend == "sqlite-folder" else "migrated_postgres_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    """A transaction that is committed after the test."""
    with database.write_transaction() as session:
        yield session


@pytest.fixture
def objects(backend: str, request: pytest.FixtureRequest) -> ObjectStore:
    store: ObjectStore = request.getfixturevalue("folder_store" if backend == "sqlite-folder" else "s3_store")
    return store


@pytest.fixture
def registry(database: Database, objects: ObjectStore, tmp_path: Path) -> Registry:
    mark_store(database, objects)
    return Registry(database, objects, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "signing-key.pem"))


@pytest.fixture
def environment(
    backend: str,
    database_url: str,
    database: Database,
    objects: ObjectStore,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> dict[str, str]:
    """The environment variables with which another process opens the registry of this test."""
    mark_store(database, objects)
    variables = {
        "ALACARTE_HOME": str(tmp_path),
        "ALACARTE_DATABASE": database_url,
        "ALACARTE_OBJECTS": str(tmp_path / "objects"),
    }
    if backend == "postgres-s3":
        settings = request.getfixturevalue("s3_settings")
        variables |= {
            "ALACARTE_OBJECTS": f"s3://{settings.bucket}/{settings.prefix}",
            "ALACARTE_S3_ENDPOINT": settings.endpoint,
            "ALACARTE_S3_REGION": settings.region,
            "ALACARTE_S3_ACCESS_KEY": settings.access_key,
            "ALACARTE_S3_SECRET_KEY": settings.secret_key,
        }
    return os.environ | variables
