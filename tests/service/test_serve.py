"""`alacarte serve` as a process: it finishes running requests before it stops, and explains errors."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.catalog.tasks import create_task
from registry.registry import Registry, upgrade_registry
from registry.settings import RegistrySettings
from service.app import create_app
from service.engine.errors import EngineSettingsInvalid
from service.settings import ServiceSettings
from tests.servers.postgres import serve_postgres
from tests.servers.processes import wait_until
from tests.service.deployment import archive

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from alacarte.cli.commands.serve import serve; serve(port=0)"]
SHORT_TIMEOUTS = """
from functools import partial
from registry import registry
from service.background import maintenance
from service.background import replica_sync
registry.Database = partial(registry.Database, response_timeout_seconds=3)
maintenance.STOP_TIMEOUT_S = replica_sync.UNREGISTER_TIMEOUT_S = 1
"""


@contextmanager
def run_service(
    environment: dict[str, str], log: Path, command: Sequence[str] = COMMAND
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the command, and yield its process and its port as soon as it listens."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=file)
    try:
        wait_until(lambda: process.poll() is not None or "http://127.0.0.1:" in log.read_text())
        match = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        assert match is not None, log.read_text()
        yield process, int(match[1])
    finally:
        process.kill()
        process.wait()


def upload_head(token: str, size_bytes: int, *lines: str) -> bytes:
    head = ["POST /sources?task=animals&name=late HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *lines]
    return "\r\n".join([*head, "Content-Type: application/zip", f"Content-Length: {size_bytes}", "", ""]).encode()


def add_admin_and_task(registry: Registry) -> str:
    with registry.database.write_transaction() as session:
        create_task(session, OPERATOR, "animals", backbone="vit")
        return issue_token(session, OPERATOR, create_user(session, OPERATOR, "admin", "admin").id).text


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_running_requests_are_finished_before_a_shutdown(
    registry: Registry, environment: dict[str, str], tmp_path: Path
) -> None:
    token = add_admin_and_task(registry)
    body = archive()
    log = tmp_path / "log"
    with run_service(environment, log) as (process, port):
        before = log.read_text()
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        assert log.read_text() == before  # health checks are not logged
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(upload_head(token, len(body)) + body[:100])
            wait_until(lambda: any(path.is_dir() for path in registry.scratch.folder.glob("*")))
            os.kill(process.pid, signal.SIGINT)
            wait_until(lambda: is_refused(port))
            sock.sendall(body[100:])
            answer = sock.recv(4096)

        assert b" 202 " in answer.splitlines()[0]
        assert process.wait(30) == 0

    lines = log.read_text().splitlines()
    assert lines[-1] == "stopped"
    assert all(json.loads(line)["event"] for line in lines[:-1])
    assert token not in log.read_text()


def test_requests_that_outlast_the_drain_get_503(
    registry: Registry, environment: dict[str, str], tmp_path: Path
) -> None:
    token = add_admin_and_task(registry)
    log = tmp_path / "log"
    with run_service(environment | {"ALACARTE_DRAIN_S": "1", "ALACARTE_READ_TIMEOUT_S": "5"}, log) as (process, port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(upload_head(token, 100, "Expect: 100-continue"))
            assert b" 100 " in sock.recv(4096)  # the service waits for the body
            os.kill(process.pid, signal.SIGINT)
            answer = sock.recv(4096)

        assert b" 503 " in answer.splitlines()[0]
        assert process.wait(60) == 0

    assert "Traceback" not in log.read_text()


def test_a_hanging_database_does_not_prevent_a_shutdown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [*COMMAND[:2], SHORT_TIMEOUTS + COMMAND[2]]
    with serve_postgres() as server:
        upgrade_registry(RegistrySettings(home=tmp_path, database=server.url, objects=""))
        environment = os.environ | {"ALACARTE_HOME": str(tmp_path), "ALACARTE_DATABASE": server.url}
        environment |= {"ALACARTE_OBJECTS": "", "ALACARTE_DRAIN_S": "1"}
        with run_service(environment, log, command) as (process, port):
            wait_until(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200)
            server.freeze()
            os.kill(process.pid, signal.SIGINT)

            assert process.wait(60) == 0

    assert "replica.unregister-failed" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("device", ["banana", "cuda:99", "meta", ""])
def test_a_missing_device_is_refused_before_the_server_listens(device: str) -> None:
    with pytest.raises(EngineSettingsInvalid, match="ALACARTE_DEVICE"):
        create_app(ServiceSettings(device=device))


def test_missing_weights_are_refused_before_the_server_listens(tmp_path: Path) -> None:
    with pytest.raises(EngineSettingsInvalid, match=r"none\.safetensors.*ALACARTE_WEIGHTS"):
        create_app(ServiceSettings(weights=str(tmp_path / "none.safetensors")))


def test_a_database_without_tables_is_explained_in_one_line(tmp_path: Path) -> None:
    environment = os.environ | {"ALACARTE_HOME": str(tmp_path / "nothing"), "ALACARTE_DATABASE": ""}

    result = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert result.returncode != 0
    assert "alacarte db upgrade" in result.stderr.splitlines()[-1]
