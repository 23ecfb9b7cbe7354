"""The registry on both homes of rows and both homes of objects: SQLite with a folder, PostgreSQL with S3."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.db import migrate
from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore
from tests.servers.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A database with all tables and no rows, that others are copied from."""
    url = postgres_server.make_database()
    database = Database(url)
    migrate.upgrade(database)
    database.close()
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database with all tables and no rows."""
    file = tmp_path_factory.mktemp("template") / "registry.db"
    database = Database(f"sqlite:///{file}")
    migrate.upgrade(database)
    database.close()  # which also moves everything from the WAL into the file
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A database of its own, with all tables and no rows."""
    file = tmp_path / "registry.db"
    file.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{file}"


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """A database of its own, with all tables and no rows."""
    url = postgres_server.make_database(template=postgres_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite-folder", "postgres-s3"])
def home(request: pytest.FixtureRequest) -> str:
    """Which pair of homes the test runs on."""
    return str(request.param)


@pytest.fixture
def database_url(home: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database with all tables and no rows."""
    return str(request.getfixturevalue("sqlite_url" if home == "sqlite-folder" else "migrated_postgres_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database with all tables and no rows."""
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def objects(home: str, request: pytest.FixtureRequest) -> ObjectStore:
    """A store with nothing in it."""
    store: ObjectStore = request.getfixturevalue("folder_store" if home == "sqlite-folder" else "s3_store")
    return store


@pytest.fixture
def registry(database: Database, objects: ObjectStore, tmp_path: Path) -> Registry:
    """A registry with all tables and nothing in them."""
    mark_store(database, objects)
    return Registry(database, objects, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "signing-key.pem"))


@pytest.fixture
def environment(
    home: str,
    database_url: str,
    database: Database,
    objects: ObjectStore,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> dict[str, str]:
    """The variables by which another process finds the registry of this test."""
    mark_store(database, objects)
    found = {
        "ALACARTE_HOME": str(tmp_path),
        "ALACARTE_DATABASE": database_url,
        "ALACARTE_OBJECTS": str(tmp_path / "objects"),
    }
    if home == "postgres-s3":
        settings = request.getfixturevalue("s3_settings")
        found |= {
            "ALACARTE_OBJECTS": f"s3://{settings.bucket}/{settings.prefix}",
            "ALACARTE_S3_ENDPOINT": settings.endpoint,
            "ALACARTE_S3_REGION": settings.region,
            "ALACARTE_S3_ACCESS_KEY": settings.access_key,
            "ALACARTE_S3_SECRET_KEY": settings.secret_key,
        }
    return os.environ | found
