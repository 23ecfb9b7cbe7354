"""Makes the database overwrite deleted rows."""

from sqlalchemy import text

from registry.db.database import Database
from registry.db.models.base import Base
from registry.erasure.target import KEPT_TABLES

_HAS_OLDER_READER = text("""
    SELECT EXISTS (
        SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND age(backend_xmin) > age(CAST(CAST(:deleted AS text) AS xid))
    )
""")
_REFERENCE_COLUMNS = ("source_id", "shard_id", "prompt_id")


def vacuum(database: Database) -> bool:
    """Remove deleted rows from the database's files; return False if a reader prevents it."""
    if database.is_sqlite:
        # Deleted rows are overwritten in the file (secure_delete); the WAL has copies of them until it is truncated.
        with database.autocommit_connection() as connection:
            busy = connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]
        return not busy
    deleted = int(database.fetch_rows(text("SELECT pg_current_xact_id()::text"), {})[0][0])
    for table in _tables():
        with database.autocommit_connection() as connection:
            quoted = connection.dialect.identifier_preparer.quote(table)
            # Truncating the file would lock readers out, and wait seconds for any other vacuum.
            connection.execute(text(f"VACUUM (TRUNCATE FALSE) {quoted}"))
    # VACUUM silently keeps rows that a transaction from before the deletion may still read.
    return not database.fetch_rows(_HAS_OLDER_READER, {"deleted": str(deleted % 2**32)})[0][0]


def _tables() -> list[str]:
    referencing = [
        table.name
        for table in Base.metadata.sorted_tables
        if table.name not in KEPT_TABLES and any(column in table.c for column in _REFERENCE_COLUMNS)
    ]
    return ["sources", *referencing]
