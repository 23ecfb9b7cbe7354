"""One PostgreSQL database for all tests here, emptied after each: they are many, and making one takes longer."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text, update

from registry.db.database import Database
from registry.db.models.log import LogHead
from registry.log.chain import GENESIS_HASH
from tests.servers.postgres import PostgresServer


def empty(database: Database) -> None:
    """Leaves the tables as a migration does."""
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
    """A database with all tables and no rows, which whoever uses it empties again."""
    url = postgres_server.make_database(template=postgres_template)
    database = Database(url)
    yield database
    database.close()
    postgres_server.drop_database(url)


@pytest.fixture
def database(home: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with all tables and no rows."""
    if home == "postgres-s3":
        shared: Database = request.getfixturevalue("shared_postgres")
        yield shared
        empty(shared)
    else:
        own = Database(request.getfixturevalue("sqlite_url"))
        yield own
        own.close()
