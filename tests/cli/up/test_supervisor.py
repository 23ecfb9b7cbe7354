"""The parts of `alacarte up`: the supervised worker, commands that can be pasted, printed progress."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from alacarte.cli.errors import CommandError
from alacarte.cli.up import worker_process
from alacarte.cli.up.demo import choose_backbone
from alacarte.cli.up.messages import predict_line
from alacarte.cli.up.progress import RegistryProgress
from alacarte.cli.up.supervisor import Supervisor
from alacarte.cli.up.up import create_first_admin, find_port, local_url
from alacarte.cli.up.worker_process import MODULE, WorkerProcess
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE
from registry.access.caller import OPERATOR
from registry.access.users import create_user
from registry.catalog.source_status import ShardStatus, SourceStatus
from registry.registry import Registry
from service.settings import ServiceSettings
from tests.registry.database_fixtures import sqlite_only
from tests.servers.processes import wait_until

TIMEOUT_SECONDS = 60


@pytest.fixture(autouse=True)
def _restore_signal_handlers() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """An ASGI app without routes."""


def make_supervisor(folder: Path, port: int = 0, worker: str = "--version") -> tuple[Supervisor, WorkerProcess]:
    """A supervisor of a service without routes and of a child that runs the given command."""
    log = folder / "service.log"
    log.write_text("the last line of the log")
    child = WorkerProcess([worker], os.environ, folder / "log" / "worker.log")
    config = uvicorn.Config(app, port=port, lifespan="off", log_config=None)
    return Supervisor(uvicorn.Server(config), child, log), child


def test_a_service_that_cannot_start_ends_the_worker_and_its_last_lines_are_shown(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        supervisor, worker = make_supervisor(tmp_path, taken.getsockname()[1])

        def monitor() -> None:
            while True:
                supervisor.tick()

        with pytest.raises(CommandError, match=r"the service did not start, see .*: the last line of the log"):
            supervisor.run(monitor)

    assert has_ended(worker)


def test_a_worker_that_ends_by_itself_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker_process, "RESTART_SECONDS", 0.0)
    supervisor, worker = make_supervisor(tmp_path)
    pids: set[int | None] = set()

    def monitor() -> None:
        def is_restarted() -> bool:
            supervisor.tick()
            pids.add(worker.pid)
            return len(pids) > 1

        wait_until(is_restarted, "another worker", wait_s=TIMEOUT_SECONDS)

    supervisor.run(monitor)

    assert capsys.readouterr().err.startswith("the worker ended by itself and is being restarted: see ")
    assert not any(pid and is_alive(pid) for pid in pids)


def test_an_error_beside_the_service_ends_everything(tmp_path: Path) -> None:
    supervisor, worker = make_supervisor(tmp_path)

    def monitor() -> None:
        raise CommandError("no disk")

    with pytest.raises(CommandError, match="no disk"):
        supervisor.run(monitor)
    assert has_ended(worker)


def test_a_worker_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = WorkerProcess([], os.environ, tmp_path / "worker.log")
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    monkeypatch.setattr(worker, "_command", [sys.executable, "-c", f"{ignore}; time.sleep(600)"])
    worker.start()
    wait_until(lambda: worker.log.read_text() != "", "the start", wait_s=TIMEOUT_SECONDS)

    worker.terminate()
    worker.wait(0.1)

    assert has_ended(worker)


@sqlite_only
def test_a_worker_ends_when_its_parent_is_gone(registry: Registry, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", MODULE, "work", "--weights", "random"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        assert worker.stdin is not None
        worker.stdin.close()  # as the kernel does for a parent that was killed

        assert worker.wait(TIMEOUT_SECONDS) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)


def has_ended(worker: WorkerProcess) -> bool:
    return worker.pid is not None and not is_alive(worker.pid)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_not_blamed_on_the_port(host: str) -> None:
    with pytest.raises(CommandError, match="ALACARTE_HOST") as caught:
        find_port(host, 0)

    assert "--port" not in str(caught.value)


@sqlite_only
@pytest.mark.parametrize("has_admin", [False, True])
def test_the_first_admin_is_created_once(has_admin: bool, registry: Registry) -> None:
    if has_admin:
        with registry.database.write_transaction() as session:
            create_user(session, OPERATOR, "root", "admin")

    assert (create_first_admin(registry) is None) == has_admin
    assert create_first_admin(registry) is None


def test_given_weights_are_for_the_default_architecture() -> None:
    assert choose_backbone("random", print) == DEFAULT_BACKBONE.partition(".")[0]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_a_path_is_one_word_to_the_shell_and_one_name_to_curl(name: str) -> None:
    words = shlex.split(predict_line("http://host", "token", Path("/folder") / name))

    [image] = [word for word in words if word.startswith("image=@")]
    quoted = image.removeprefix('image=@"').removesuffix('"')
    assert quoted.replace('\\"', '"').replace("\\\\", "\\") == str(Path("/folder") / name)


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80")],
)
def test_the_service_is_reached_from_here_wherever_it_listens(host: str, url: str) -> None:
    assert local_url(ServiceSettings(host=host, port=80)) == url


def status(progress: float, error: str | None = None) -> SourceStatus:
    shard = ShardStatus(UUID(int=1), 0, 1, 4, 9, "training", progress, 0, None, error, None)
    return SourceStatus(
        UUID(int=2), UUID(int=3), "ann", None, datetime(2025, 1, 1, tzinfo=UTC), frozenset(), ("cat",), (shard,)
    )


@sqlite_only
def test_progress_is_printed_in_steps_and_errors_when_they_are_new(
    registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = RegistryProgress(registry)

    for done in (0.0, 0.1, 0.3, 0.4, 0.99):
        progress.show(status(done))
    for done in (0.99, 0.99, 1.0):
        progress.show(status(done, "no disk" if done < 1 else None))

    assert capsys.readouterr().err.splitlines() == [
        "ann: 0 % trained",
        "ann: 30 % trained",
        "ann: 99 % trained",
        "ann: 99 % trained; no disk",
        "ann: trained",
    ]
