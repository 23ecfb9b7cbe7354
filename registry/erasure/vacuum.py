"""Making the database give up the place of deleted rows."""

from sqlalchemy import text

from registry.db.database import Database
from registry.db.models.base import Base
from registry.erasure.target import KEPT_TABLES

_OLDER = text("""
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND age(backend_xmin) > age(CAST(CAST(:deleted AS text) AS xid))
    )
""")
_SPEAKS = ("source_id", "shard_id", "prompt_id")


def vacuum(database: Database) -> bool:
    """Whether no deleted row is left in the files as far as the database can say; False if a reader is in the way."""
    if database.is_sqlite:
        # Deleted rows are overwritten in the file; their last copy is in the WAL until it is cut.
        with database.autocommit_connection() as connection:
            busy = connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]
        return not busy
    deleted = int(database.fetch_rows(text("SELECT pg_current_xact_id()::text"), {})[0][0])
    for table in _tables():
        with database.autocommit_connection() as connection:
            quoted = connection.dialect.identifier_preparer.quote(table)
            # Handing pages back to the system would lock readers out, and wait seconds for whoever else cleans up.
            connection.execute(text(f"VACUUM (TRUNCATE FALSE) {quoted}"))
    # Vacuuming passes over rows that a transaction from before the deletion may still read, and does not say so.
    return not database.fetch_rows(_OLDER, {"deleted": str(deleted % 2**32)})[0][0]


def _tables() -> list[str]:
    naming = [
        table.name
        for table in Base.metadata.sorted_tables
        if table.name not in KEPT_TABLES and any(column in table.c for column in _SPEAKS)
    ]
    return ["sources", *naming]
