"""One PostgreSQL database for all tests of this folder, cleared after each, which is faster than creating one."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text, update

from registry.db.database import Database
from registry.db.models.log import LogHead
from registry.log.chain import GENESIS_HASH
from tests.servers.postgres import PostgresServer


def clear_tables(database: Database) -> None:
    """Restore the tables to their state after the migrations."""
    with database.write_transaction() as session:
        tables = [table for table in database.metadata.sorted_tables if table.name != LogHead.__tablename__]
        if database.is_sqlite:
            for table in reversed(tables):
                session.execute(table.delete())
        else:
            session.execute(text(f"TRUNCATE {', '.join(table.name for table in tables)}"))
        session.execute(update(LogHead).values(number=0, hash=GENESIS_HASH))


@pytest.fixture(scope="session")
def shared_postgres(postgres_server: PostgresServer, postgres_template: str) -> Iterator[Database]:
    """A migrated database without rows, which is cleared after each use."""
    url = postgres_server.make_database(template=postgres_template)
    database = Database(url)
    yield database
    database.close()
    postgres_server.drop_database(url)


@pytest.fixture
def database(backend: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    if backend == "postgres-s3":
        shared: Database = request.getfixturevalue("shared_postgres")
        yield shared
        clear_tables(shared)
    else:
        own = Database(request.getfixturevalue("sqlite_url"))
        yield own
        own.close()
