"""The SQL database: SQLite or PostgreSQL, through two doors, one for reading and one for writing."""

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
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from registry.db.models import tables
from registry.errors import DatabaseUnreachable, DatabaseUnusable

BUSY_SECONDS = 15  # how long a writer waits for another
CONNECT_SECONDS = 5
RESPONSE_TIMEOUT_SECONDS = 60.0  # how long a server may keep an answer back; waiting for a lock ends long before
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # what was answered is on disk, whatever fails next
    "PRAGMA foreign_keys=ON",
    "PRAGMA secure_delete=ON",  # forgotten rows are overwritten
    f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}",
)


class Database:
    """An engine and its doors. One object serves all threads of a process."""

    def __init__(
        self, url: str, pool_size: int = 10, response_timeout_seconds: float | None = RESPONSE_TIMEOUT_SECONDS
    ) -> None:
        parsed = _checked(url)
        self.metadata = tables.metadata()
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.name = parsed.set(query={}).render_as_string(hide_password=True)  # a query may hold passwords too
        self._file = Path(parsed.database or "") if self.is_sqlite else None
        # One statement needs no transaction around it: on PostgreSQL that spares two round trips, and what can simply
        # be asked again needs no look whether the connection still lives, which spares a third.
        self._single: Engine
        if self.is_sqlite:
            self.engine = _sqlite_engine(parsed)
            self._single = _sqlite_engine(parsed, isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
        else:
            engine = partial(_postgres_engine, parsed, response_timeout_seconds, pool_size=pool_size)
            self.engine = engine(isolation_level="READ COMMITTED", pool_pre_ping=True)
            self._single = engine(isolation_level="AUTOCOMMIT", pool_reset_on_return=None)
        self._generation = 0  # of connections: one more each time that all are let go of
        for each in (self.engine, self._single):
            event.listen(each, "connect", self._note_generation)
            event.listen(each, "checkin", self._close_late)

    @property
    def exists(self) -> bool:
        """Whether there is a file, where the database is one; looking into it would make it."""
        return self._file is None or self._file.exists()

    def prepare(self) -> None:
        """Makes the folder of the file, where the database is one."""
        if self._file is not None:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise DatabaseUnusable(
                    f"{self._file.parent} cannot be made ({error.strerror}): name another"
                ) from error

    @contextmanager
    def read_transaction(self) -> Iterator[Session]:
        """A transaction that changes nothing."""
        with translate_errors(), Session(self.engine.execution_options(alacarte_begin="BEGIN")) as session:
            yield session

    @contextmanager
    def write_transaction(self) -> Iterator[Session]:
        """A transaction that is committed when the block ends, and undone when it raises."""
        with translate_errors(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def autocommit_connection(self) -> Iterator[Connection]:
        """A connection for a single statement that reads."""
        with translate_errors(), self._single.connect() as connection:
            yield connection

    def fetch_rows(self, statement: Executable, values: Mapping[str, object]) -> Sequence[Row[Any]]:
        """The rows of a statement that reads, in one round trip; asked once more if the server had gone meanwhile."""
        with translate_errors():
            try:
                with self._single.connect() as connection:
                    return connection.execute(statement, values).all()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            with self._single.connect() as connection:
                return connection.execute(statement, values).all()

    def close(self) -> None:
        """Lets go of all connections; of one that is in use, when whoever uses it gives it back."""
        self._generation += 1
        self.engine.dispose()
        self._single.dispose()

    def _note_generation(self, connection: Any, record: Any) -> None:  # noqa: ARG002  # Any: SQLAlchemy's own
        record.info["generation"] = self._generation

    def _close_late(self, connection: Any, record: Any) -> None:  # Any: of either driver
        if connection is not None and record.info["generation"] != self._generation:
            connection.close()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Errors of the database that a caller can do something about, in words of the domain."""
    try:
        yield
    except PoolTimeout as error:
        raise DatabaseUnreachable("the database is busy: all connections are in use") from error
    except (OperationalError, ProgrammingError) as error:
        if _tells_of_missing_tables(error):
            raise DatabaseUnusable("the database lacks tables of this version: run `alacarte db upgrade`") from error
        if isinstance(error, OperationalError):
            raise DatabaseUnreachable(_reason(error)) from error
        raise
    except DatabaseError as error:
        if isinstance(error.orig, sqlite3.DatabaseError) and type(error) is DatabaseError:
            raise DatabaseUnusable(
                "the database's file is damaged or none of SQLite's: restore it from a backup"
            ) from error
        raise


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise DatabaseUnusable(
            "the database's URL cannot be read: sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or parsed.query or not parsed.database or ":memory:" in parsed.database:
        raise DatabaseUnusable(f"no database for {parsed.drivername!r}: sqlite:///FILE or postgresql://USER@HOST/NAME")
    return parsed.set(drivername="sqlite")


def _sqlite_engine(url: URL, **options: Any) -> Engine:  # Any: as `create_engine` has it
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    if options.get("isolation_level") != "AUTOCOMMIT":
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:  # noqa: ARG001  # Any: not looked at
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in _PRAGMAS:
        connection.execute(pragma).close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: one that begins as a reader could find it taken and must give up.
    connection.exec_driver_sql(connection.get_execution_options().get("alacarte_begin", "BEGIN IMMEDIATE"))


def _postgres_engine(
    url: URL, response_timeout_seconds: float | None, **options: Any
) -> Engine:  # Any: of `create_engine`
    connect = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "alacarte",
        # Whoever waits for a lock of one that hangs gets an answer, and the one that hangs loses it.
        "options": f"-c lock_timeout={BUSY_SECONDS}s -c idle_in_transaction_session_timeout={4 * BUSY_SECONDS}s",
        # What was sent to a machine that has gone is not waited for as long as TCP would: a quarter of an hour.
        "tcp_user_timeout": 1000 * BUSY_SECONDS,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    try:
        engine = create_engine(url, connect_args=connect, **options)
        from registry.db.timeouts import make_connector  # only here: it needs psycopg
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise DatabaseUnusable("PostgreSQL needs psycopg: pip install 'alacarte[postgres]'") from error
    event.listen(engine, "do_connect", make_connector(response_timeout_seconds))
    return engine


def _tells_of_missing_tables(error: DBAPIError) -> bool:
    text = str(error.orig)
    return "no such table" in text or "no such column" in text or getattr(error.orig, "sqlstate", None) == "42P01"


def _reason(error: OperationalError) -> str:
    """One line for a person, without the statement and its values."""
    lines = str(error.orig).strip().splitlines()
    return f"the database does not answer: {lines[0] if lines else type(error.orig).__name__}"
