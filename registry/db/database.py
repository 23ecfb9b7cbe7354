"""The SQL database, SQLite or PostgreSQL: connections, transactions, and the translation of its errors."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Executable, Row, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from registry.db.models.base import Base
from registry.db.models.registry import all_tables
from registry.errors import Conflict, DatabaseUnreachable, DatabaseUnusable

BUSY_SECONDS = 15  # how long a transaction waits for a lock
CONNECT_SECONDS = 5
RESPONSE_TIMEOUT_SECONDS = 60.0  # longer than any wait for a lock
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # a committed transaction is on disk
    "PRAGMA foreign_keys=ON",
    "PRAGMA secure_delete=ON",  # deleted rows are overwritten
    f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}",
)


class Database:
    """The connection pools of one database, for all threads of a process."""

    def __init__(
        self, url: str, pool_size: int = 10, response_timeout_seconds: float | None = RESPONSE_TIMEOUT_SECONDS
    ) -> None:
        parsed = _parse_url(url)
        self.metadata = all_tables()
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.name = parsed.set(query={}).render_as_string(hide_password=True)  # a query may contain passwords
        self._file = Path(parsed.database or "") if self.is_sqlite else None
        # A single statement needs no transaction, which saves two round trips on PostgreSQL; and since it can be
        # repeated, it needs no test of the connection, which saves a third.
        self._autocommit_engine: Engine
        if self.is_sqlite:
            self.engine = _sqlite_engine(parsed)
            self._autocommit_engine = _sqlite_engine(parsed, isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
        else:
            engine = partial(_postgres_engine, parsed, response_timeout_seconds, pool_size=pool_size)
            self.engine = engine(isolation_level="READ COMMITTED", pool_pre_ping=True)
            self._autocommit_engine = engine(isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
        self._generation = 0  # of connections; incremented by `close`
        for one in (self.engine, self._autocommit_engine):
            event.listen(one, "connect", self._record_generation)
            event.listen(one, "checkin", self._close_if_old)

    @property
    def exists(self) -> bool:
        """Return whether the file of an SQLite database exists; connecting would create it."""
        return self._file is None or self._file.exists()

    def prepare(self) -> None:
        """Create the folder of an SQLite database."""
        if self._file is not None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise DatabaseUnusable(
                    f"{self._file.parent} cannot be created ({error.strerror}): set ALACARTE_DATABASE to another"
                ) from error

    @contextmanager
    def read_transaction(self) -> Iterator[Session]:
        """Open a session for reading only; it is rolled back at the end."""
        with translate_errors(), Session(self.engine.execution_options(alacarte_begin="BEGIN")) as session:
            yield session

    @contextmanager
    def write_transaction(self) -> Iterator[Session]:
        """Open a session that is committed when the block ends, and rolled back if it raises."""
        with translate_errors(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def autocommit_connection(self) -> Iterator[Connection]:
        """Open a connection for a single statement that reads."""
        with translate_errors(), self._autocommit_engine.connect() as connection:
            yield connection

    def fetch_rows(self, statement: Executable, values: Mapping[str, object]) -> Sequence[Row[Any]]:
        """Run one statement that reads, in one round trip; repeat it once if the connection was lost meanwhile."""
        with translate_errors():
            try:
                with self._autocommit_engine.connect() as connection:
                    return connection.execute(statement, values).all()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            with self._autocommit_engine.connect() as connection:
                return connection.execute(statement, values).all()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are returned to the pool."""
        self._generation += 1
        self.engine.dispose()
        self._autocommit_engine.dispose()

    def _record_generation(self, connection: Any, record: Any) -> None:  # noqa: ARG002  # Any: SQLAlchemy's types
        record.info["generation"] = self._generation

    def _close_if_old(self, connection: Any, record: Any) -> None:  # Any: either driver's connection
        if connection is not None and record.info["generation"] != self._generation:
            connection.close()


def insert_unique(session: Session, row: Base, conflict_message: str) -> None:
    """Insert the row; if a unique constraint fails, raise Conflict and leave the transaction usable."""
    try:
        with session.begin_nested():
            session.add(row)
            session.flush()
    except IntegrityError as error:
        raise Conflict(conflict_message) from error
    session.refresh(row)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise DatabaseUnreachable or DatabaseUnusable for errors of the database that an operator can fix."""
    try:
        yield
    except PoolTimeout as error:
        raise DatabaseUnreachable("the database is busy: all connections are in use") from error
    except (OperationalError, ProgrammingError) as error:
        if _is_missing_table(error):
            raise DatabaseUnusable("the database lacks tables of this version: run `alacarte db upgrade`") from error
        if isinstance(error, OperationalError):
            raise DatabaseUnreachable(_describe(error)) from error
        raise
    except DatabaseError as error:
        if isinstance(error.orig, sqlite3.DatabaseError) and type(error) is DatabaseError:
            raise DatabaseUnusable(
                "the file of the database is damaged or not an SQLite file: restore it from a backup"
            ) from error
        raise


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise DatabaseUnusable(
            "ALACARTE_DATABASE is not a URL: use sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or parsed.query or not parsed.database or ":memory:" in parsed.database:
        raise DatabaseUnusable(
            f"{parsed.drivername!r} is not supported: use sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    return parsed.set(drivername="sqlite")


def _sqlite_engine(url: URL, **options: Any) -> Engine:  # Any: of `create_engine`
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    if options.get("isolation_level") != "AUTOCOMMIT":
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:  # noqa: ARG001  # Any: unused
    connection.isolation_level = None  # `_begin_sqlite` begins transactions
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: a transaction that began by reading would fail if another writer came first.
    connection.exec_driver_sql(connection.get_execution_options().get("alacarte_begin", "BEGIN IMMEDIATE"))


def _postgres_engine(
    url: URL, response_timeout_seconds: float | None, **options: Any
) -> Engine:  # Any: of `create_engine`
    connect = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "alacarte",
        # A transaction that waits for a lock fails in time, and a hanging transaction loses its locks.
        "options": f"-c lock_timeout={BUSY_SECONDS}s -c idle_in_transaction_session_timeout={4 * BUSY_SECONDS}s",
        # Detect a dead host; TCP alone would take a quarter of an hour.
        "tcp_user_timeout": 1000 * BUSY_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    try:
        engine = create_engine(url, connect_args=connect, **options)
        from registry.db.timeouts import make_connector  # imported here, because it needs psycopg
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise DatabaseUnusable("PostgreSQL needs psycopg: pip install 'alacarte[postgres]'") from error
    event.listen(engine, "do_connect", make_connector(response_timeout_seconds))
    return engine


def _is_missing_table(error: DBAPIError) -> bool:
    text = str(error.orig)
    is_missing = getattr(error.orig, "sqlstate", None) in ("42P01", "42703")  # undefined table or column
    return is_missing or "no such table" in text or "no such column" in text


def _describe(error: OperationalError) -> str:
    """Return a message of one line, without the statement and its values."""
    lines = str(error.orig).strip().splitlines()
    return f"the database does not answer: {lines[0] if lines else type(error.orig).__name__}"
