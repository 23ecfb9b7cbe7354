"""Transactions are atomic and durable, and errors of the database are reported in one line."""

import sqlite3
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError

from registry.db.database import Database
from registry.db.models.users import Membership, User
from registry.errors import DatabaseUnreachable, DatabaseUnusable
from tests.registry.factories import make_user, run_at_once
from tests.servers.postgres import serve_postgres
from tests.servers.processes import find_free_ports


def names_of(database: Database) -> list[str]:
    with database.read_transaction() as session:
        return sorted(session.scalars(select(User.name)))


def test_committed_rows_stay_and_failed_transactions_leave_none(database: Database) -> None:
    with database.write_transaction() as session:
        make_user(session, "ann")
    with pytest.raises(RuntimeError), database.write_transaction() as session:
        make_user(session, "bob")
        raise RuntimeError

    assert names_of(database) == ["ann"]


def test_rows_that_belong_to_nothing_are_refused(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write_transaction() as session:
        user = make_user(session)
        session.add(Membership(group_id=user.id, member_id=user.id.__class__(int=7)))


def test_writers_of_many_threads_wait_for_each_other(database: Database) -> None:
    def write(number: int) -> None:
        for step in range(10):
            with database.write_transaction() as session:
                counted = session.scalar(select(func.count()).select_from(User))  # a reader that becomes a writer
                make_user(session, f"{number} {step} {counted}")

    run_at_once(*(partial(write, number) for number in range(6)))

    assert len(names_of(database)) == 60


def test_a_reader_does_not_wait_for_a_writer(database: Database) -> None:
    with database.write_transaction() as session:
        make_user(session, "ann")
        assert names_of(database) == []  # would wait for ever, were the writer in its way
    assert names_of(database) == ["ann"]


def test_a_connection_in_use_during_close_is_closed_when_it_is_returned(database: Database) -> None:
    with database.autocommit_connection() as connection:
        late = connection.connection.dbapi_connection
        database.close()
        assert connection.execute(select(func.count(User.id))).scalar_one() == 0

    assert late is not None
    with pytest.raises(Exception, match="closed"):
        late.cursor().execute("SELECT 1")
    assert names_of(database) == []  # whoever asks again is connected anew


def test_sqlite_is_durable_and_overwrites_deleted_rows(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")
    with database.autocommit_connection() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "foreign_keys", "secure_delete", "synchronous", "busy_timeout")
        }
    database.close()

    assert found == {
        "journal_mode": "wal", "foreign_keys": 1, "secure_delete": 1, "synchronous": 2, "busy_timeout": 15_000
    }  # fmt: skip


def test_a_locked_database_is_unreachable_and_not_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")
    with database.autocommit_connection() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
    other = sqlite3.connect(tmp_path / "r.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("registry.db.database._PRAGMAS", ("PRAGMA busy_timeout=20",))
    database.close()

    with pytest.raises(DatabaseUnreachable, match="locked") as refusal, database.write_transaction() as session:
        session.execute(text("INSERT INTO t VALUES (1)"))
    other.close()
    database.close()

    assert refusal.value.status == 503


def test_a_server_that_is_down_is_reported_in_one_line_without_the_password() -> None:
    (port,) = find_free_ports(1)
    database = Database(f"postgresql://ann:sesame@127.0.0.1:{port}/registry")

    with pytest.raises(DatabaseUnreachable) as refusal, database.read_transaction() as session:
        session.execute(text("SELECT 1"))

    assert "\n" not in str(refusal.value)
    assert "sesame" not in str(refusal.value) + database.name


@pytest.mark.parametrize(
    "url",
    [
        *("", "nonsense", "mysql://host/name", "sqlite://", "sqlite:///:memory:", "s3://x"),
        *("postgresql://u:p@h:abc/x", "sqlite:///x?uri=true", "sqlite:///file::memory:", "sqlite:////x?mode=ro"),
    ],
)
def test_an_unsupported_database_url_is_refused(url: str) -> None:
    with pytest.raises(DatabaseUnusable, match="sqlite:///FILE"):
        Database(url)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_without_tables_says_what_to_run(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    database = Database(request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/r.db")

    with pytest.raises(DatabaseUnusable, match="alacarte db upgrade"):
        names_of(database)
    database.close()


def test_a_writer_waits_for_the_locks_of_another(database: Database) -> None:
    """Both read the same number and write one more: none of the steps is lost."""
    with database.write_transaction() as session:
        user = make_user(session, "0")

    def count_up() -> None:
        for _ in range(10):
            with database.write_transaction() as session:
                row = session.scalars(select(User).where(User.id == user.id).with_for_update()).one()
                row.name = str(int(row.name) + 1)

    run_at_once(*[count_up] * 4)

    assert names_of(database) == ["40"]


def test_a_single_statement_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    with serve_postgres() as server:
        database = Database(server.url)
        assert database.fetch_rows(text("SELECT 1"), {}) == [(1,)]
        server.kill()
        with pytest.raises(DatabaseUnreachable):
            database.fetch_rows(text("SELECT 1"), {})
        server.start()
        assert database.fetch_rows(text("SELECT 2"), {}) == [(2,)]
        server.kill()
        server.start()
        assert database.fetch_rows(text("SELECT 3"), {}) == [(3,)]  # by a connection that had died unseen
        with database.write_transaction() as session:
            assert session.execute(text("SELECT 4")).all() == [(4,)]
        database.close()


def test_a_server_that_hangs_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.db.database.CONNECT_SECONDS", 2)
    with serve_postgres() as server:
        database = Database(server.url, response_timeout_seconds=0.5)
        with pytest.raises(DatabaseUnreachable, match="no response"), database.write_transaction() as session:
            session.execute(text("SELECT 1"))
            server.freeze()
            session.execute(text("SELECT 2"))
        with pytest.raises(DatabaseUnreachable):
            database.fetch_rows(text("SELECT 3"), {})
        server.thaw()
        assert database.fetch_rows(text("SELECT 4"), {}) == [(4,)]
        with database.write_transaction() as session:
            assert session.execute(text("SELECT 5")).all() == [(5,)]
        database.close()


def test_without_a_timeout_a_slow_response_is_awaited(postgres_url: str) -> None:
    for seconds in (None, 30.0):
        database = Database(postgres_url, response_timeout_seconds=seconds)
        assert database.fetch_rows(text("SELECT 1 FROM pg_sleep(0.3)"), {}) == [(1,)]
        database.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(content)
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")

    with pytest.raises(DatabaseUnusable, match="damaged"):
        names_of(database)
    database.close()


def test_a_password_in_a_urls_query_is_not_shown() -> None:
    assert "sesame" not in Database("postgresql://u@h/x?password=sesame").name


def test_waiting_for_a_lock_ends_with_an_error(migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.db.database.BUSY_SECONDS", 1)
    database = Database(migrated_postgres_url)
    with database.write_transaction() as session:
        user = make_user(session, "ann")
    with (
        database.write_transaction() as holder,
        pytest.raises(DatabaseUnreachable, match="lock timeout"),
        database.write_transaction() as session,
    ):
        holder.execute(select(User).where(User.id == user.id).with_for_update())
        session.execute(select(User).where(User.id == user.id).with_for_update())
    database.close()


def test_a_single_statement_waits_for_no_writer(database: Database) -> None:
    with database.write_transaction() as session:
        session.execute(text("UPDATE users SET name = name"))

        assert database.fetch_rows(text("SELECT count(*) FROM users"), {})[0][0] == 0
