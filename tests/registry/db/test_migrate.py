"""Every earlier revision, with data in all of its tables, is upgraded to the tables of the code."""

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Uuid,
    insert,
    select,
    text,
)

from registry.db import migrate
from registry.db.clock import UtcDateTime
from registry.db.database import Database
from registry.db.models.registry import all_tables
from registry.errors import DatabaseUnusable
from registry.log import chain

REVISIONS = migrate.revisions()
# Columns whose values are words of a list.
ALLOWED_VALUES = {
    "role": "admin", "right": "use", "composition": "vote", "weighting": "prototypes", "scope": "source",
    "purpose": "train",
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Any:  # Any: a generator of databases
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'r.db'}"
    database = Database(url)
    yield database
    database.close()


# What has been renamed since, by the name that the code has now.
OLD_TABLES = {"log_entries": "audit_lines", "write_claims": "holdings"}
OLD_COLUMNS = {
    ("write_claims", "process"): "holder", ("write_claims", "scratch_id"): "home",
    ("erasures", "write_claims"): "holdings", ("shards", "is_paused"): "is_held",
    ("prompts", "artifact_metadata"): "facts", ("tombstones", "hash"): "mark",
    ("tombstones", "created_at"): "made_at",
}  # fmt: skip


def value_for(table: Table, name: str, made: dict[str, dict[str, Any]]) -> Any:
    """Something that fits the column: what it refers to, else a word, else anything of its type."""
    column = table.columns[name]
    for key in column.foreign_keys:
        return made[key.column.table.name][key.column.name]
    if name in ALLOWED_VALUES:
        return ALLOWED_VALUES[name]
    if name in ("erasure_id", "lease_id", "worker", "expires_at") and column.nullable:
        return None  # a source that stays, a shard that nobody trains
    kinds: list[tuple[type[Any], Any]] = [
        (Uuid, uuid4()),
        (UtcDateTime, datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)),
        (Boolean, False),
        (Integer, 7),
        (Float, 0.5),
        (JSON, ["ä"] if name in ("labels", "prefixes", "write_claims") else {"ä": 1}),
        (LargeBinary, secrets.token_bytes(8)),
    ]
    return next(
        (value for kind, value in kinds if isinstance(column.type, kind)), f"{table.name}.{name} é'; DROP TABLE"
    )


def fill(connection: Connection) -> dict[str, dict[str, Any]]:
    """One row in every table that there is by now, typed as the code has it; returns them by table."""
    there = MetaData()
    there.reflect(connection)
    made: dict[str, dict[str, Any]] = {}
    for table in all_tables().sorted_tables:
        name = table.name if table.name in there.tables else OLD_TABLES.get(table.name, table.name)
        if name not in there.tables or table.name in ("log_head", "installation"):
            continue
        old = Table(name, MetaData())
        row = {}
        for column in table.columns:
            old_name = OLD_COLUMNS.get((table.name, column.name), column.name)
            there_as = column.name if column.name in there.tables[name].columns else old_name
            if there_as in there.tables[name].columns:
                old.append_column(Column(there_as, column.type))
                row[column.name] = (there_as, value_for(table, column.name, made))
        connection.execute(insert(old).values(dict(row.values())))
        made[table.name] = {column: value for column, (_, value) in row.items()}
    return made


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_with_data_arrives_at_the_newest_from(revision: str, empty: Database) -> None:
    migrate.upgrade(empty, revision)
    with empty.engine.begin() as connection:
        made = fill(connection)

    before, after = migrate.upgrade(empty)

    assert (before, after) == (revision, REVISIONS[-1])
    migrate.require_current(empty)
    with empty.engine.connect() as connection:
        for name, row in made.items():
            table = all_tables().tables[name]
            (stored,) = connection.execute(select(*(table.columns[column] for column in row))).all()
            assert tuple(stored) == tuple(row.values())


def test_the_migrations_arrive_at_the_tables_of_the_code(empty: Database) -> None:
    migrate.upgrade(empty)

    with empty.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, all_tables()) == []


def test_the_steps_of_running_erasures_get_their_new_names(empty: Database) -> None:
    migrate.upgrade(empty, "0007")
    steps = all_tables().tables["erasure_steps"]
    old = ["serving", "objects", "holdings", "memory", "rows", "look"]
    with empty.engine.begin() as connection:
        erasure = fill(connection)["erasures"]["id"]
        connection.execute(steps.delete())
        rows = [
            {"erasure_id": erasure, "number": i, "name": name, "attempts": 0, "found": {}} for i, name in enumerate(old)
        ]
        connection.execute(insert(steps), rows)

    migrate.upgrade(empty)

    with empty.engine.connect() as connection:
        names = connection.scalars(select(steps.c.name).order_by(steps.c.number)).all()
    assert names == ["unserve", "objects", "write_claims", "memory", "rows", "verify"]


def test_the_log_of_an_earlier_version_is_intact_and_goes_on(empty: Database) -> None:
    migrate.upgrade(empty, "0006")
    at, actor, subject = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC), uuid4(), {"ä": 1}
    digest = chain._hash_entry(1, at, actor, "user.created", subject, chain.GENESIS_HASH)
    there = all_tables().tables["log_entries"].to_metadata(MetaData(), name="audit_lines")
    with empty.engine.begin() as connection:
        values = (1, at, actor, "user.created", subject, chain.GENESIS_HASH, digest)
        connection.execute(insert(there).values(values))
        connection.execute(text("UPDATE audit_head SET number = 1, hash = :hash"), {"hash": digest})

    migrate.upgrade(empty)

    with empty.write_transaction() as session:
        assert chain.append_entry(session, actor, "user.removed") == 2
        assert list(chain.find_breaks(session)) == []


def test_upgrading_twice_changes_nothing(empty: Database) -> None:
    assert migrate.upgrade(empty) == (None, REVISIONS[-1])
    assert migrate.upgrade(empty) == (REVISIONS[-1], REVISIONS[-1])


def test_a_database_of_another_version_is_refused_with_what_to_do(empty: Database) -> None:
    with pytest.raises(DatabaseUnusable, match="no tables yet: run `alacarte db upgrade`"):
        migrate.require_current(empty)
    migrate.upgrade(empty, REVISIONS[0])
    with pytest.raises(DatabaseUnusable, match="run `alacarte db upgrade`"):
        migrate.require_current(empty)
    with empty.write_transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseUnusable, match="update alacarte"):
        migrate.require_current(empty)
    with pytest.raises(DatabaseUnusable, match="does not know"):
        migrate.upgrade(empty)


def test_a_failed_step_leaves_the_database_as_it_was(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(empty, REVISIONS[0])
    with empty.write_transaction() as session:
        session.execute(text("CREATE TABLE releases (x INTEGER)"))  # the third step will trip over it

    with pytest.raises(Exception, match="releases"):
        migrate.upgrade(empty)

    assert migrate.current(empty) == REVISIONS[0]
    with empty.engine.connect() as connection:
        there = MetaData()
        there.reflect(connection)
    assert "sources" not in there.tables


def test_ids_are_of_one_type_everywhere() -> None:
    for table in all_tables().tables.values():
        for column in table.columns:
            if column.name.endswith("_id") or column.name == "id":
                assert column.type.python_type in (UUID, int)
