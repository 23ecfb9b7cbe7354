"""Upgrade a database to the tables of this version, by numbered Alembic migrations."""

from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from registry.db.database import Database, translate_errors
from registry.errors import DatabaseUnusable

SCRIPTS = Path(__file__).parent / "migrations"
ADVISORY_LOCK_ID = 0x616C6163  # PostgreSQL: so that only one of several starting processes migrates


def revisions() -> list[str]:
    """Return all revisions, oldest first."""
    return [script.revision for script in _scripts(_config()).walk_revisions()][::-1]


def current(database: Database) -> str | None:
    """Return the revision of the database; None before the first."""
    if not database.exists:
        return None
    with database.autocommit_connection() as connection:
        return _read_revision(connection)


def upgrade(database: Database, revision: str = "head") -> tuple[str | None, str | None]:
    """Upgrade the database in one transaction; return the revision before and after."""
    config = _config()
    scripts = _scripts(config)
    database.prepare()
    with translate_errors(), database.engine.begin() as connection:
        if not database.is_sqlite:  # on SQLite, BEGIN IMMEDIATE locks
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK_ID})")
        before = _read_revision(connection)

        def steps(heads: tuple[str, ...], context: MigrationContext) -> object:  # noqa: ARG001  # alembic's signature
            return scripts._upgrade_revs(revision, heads)  # type: ignore[arg-type]  # as alembic's command does

        try:
            with EnvironmentContext(config, scripts, fn=steps, as_sql=False) as environment:
                environment.configure(connection=connection, transactional_ddl=True, transaction_per_migration=False)
                environment.run_migrations()
        except CommandError as error:
            raise DatabaseUnusable(
                f"the database has a revision that this version does not know ({error}): update alacarte"
            ) from error
        return before, _read_revision(connection)


def require_current(database: Database) -> None:
    """Raise DatabaseUnusable unless the tables are those of this version."""
    newest, here = revisions()[-1], current(database)
    if here is None:
        raise DatabaseUnusable(f"{database.name} has no tables yet: run `alacarte db upgrade`")
    if here not in revisions():
        raise DatabaseUnusable(f"{database.name} is at revision {here} of a newer version: update alacarte")
    if here != newest:
        raise DatabaseUnusable(f"{database.name} is at revision {here}, not {newest}: run `alacarte db upgrade`")


def _read_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", SCRIPTS.as_posix().replace("%", "%%"))
    return config


def _scripts(config: Config) -> ScriptDirectory:
    return ScriptDirectory.from_config(config)
