"""The production shape as processes on one machine: PostgreSQL, S3, a proxy, replicas and workers."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.registry import Registry, open_registry, upgrade_registry
from registry.settings import RegistrySettings
from tests.e2e.process import ManagedProcess, answers, has_logged, process_environment, proxy_process
from tests.servers.nginx import NGINX, NO_NGINX
from tests.servers.postgres import PostgresServer, serve_postgres
from tests.servers.processes import find_free_ports, read_log_tail
from tests.servers.s3 import REGION, OwnS3Server, serve_own_s3

BUCKET = "alacarte"
REPLICAS = 2
SERVE = (sys.executable, "-m", "alacarte", "serve")
WORK = (sys.executable, "-m", "alacarte", "work", "--weights", "random", "--poll", "0.2", "--cache-gb", "0")


@dataclass(frozen=True)
class Cluster:
    """All processes by name: replica-1, replica-2, worker-1, worker-2, proxy."""

    url: str  # of the proxy
    replica_urls: tuple[str, ...]
    parts: dict[str, ManagedProcess]
    postgres: PostgresServer
    s3: OwnS3Server
    registry: Registry  # direct access to what no caller sees
    admin_token: str

    @property
    def replicas(self) -> list[ManagedProcess]:
        """Return the replicas in the order of their URLs."""
        return [part for name, part in self.parts.items() if name.startswith("replica-")]

    @property
    def workers(self) -> list[ManagedProcess]:
        return [part for name, part in self.parts.items() if name.startswith("worker-")]

    def restart_replicas(self, command: Sequence[str]) -> None:
        for part in self.replicas:
            part.kill()
        for part in self.replicas:
            part.begin(command)
        for part in self.replicas:
            part.await_up()

    def logs(self) -> str:
        """Return the end of each log."""
        logs = [part.log for part in self.parts.values()] + [self.s3.log]
        return "\n".join(f"--- {log}\n{read_log_tail(log)}" for log in logs if log.exists())


@contextmanager
def start_cluster(
    folder: Path,
    *,
    workers: int = 2,
    serve: Sequence[str] = SERVE,
    work: Sequence[str] = WORK,
    durable: bool = False,
) -> Iterator[Cluster]:
    """Start everything, with an admin and no data; the folder keeps the logs.

    Backbones have random weights, so that nothing is downloaded. A durable database syncs its log.
    """
    if NGINX is None:
        pytest.skip(NO_NGINX)
    with ExitStack() as stack:
        postgres = stack.enter_context(serve_postgres(durable=durable))
        s3 = stack.enter_context(serve_own_s3())
        database = postgres.make_database()
        stack.callback(postgres.drop_database, database)
        shared = {
            "database": database,
            "objects": f"s3://{BUCKET}/registry",
            "s3_endpoint": s3.address.endpoint,
            "s3_region": REGION,
            "s3_access_key": s3.address.access_key,
            "s3_secret_key": s3.address.secret_key,
        }
        settings = RegistrySettings.model_validate({**shared, "home": folder / "test"})
        upgrade_registry(settings)
        registry = open_registry(settings)
        stack.callback(registry.database.close)
        ports = find_free_ports(REPLICAS)
        urls = tuple(f"http://127.0.0.1:{port}" for port in ports)
        parts = []
        for number, (port, url) in enumerate(zip(ports, urls, strict=True), 1):
            environment = process_environment(folder / f"replica-{number}", port, shared)
            parts.append(ManagedProcess(f"replica-{number}", serve, folder, environment, answers(f"{url}/readyz")))
        for number in range(1, workers + 1):
            environment = process_environment(folder / f"worker-{number}", 0, shared)
            parts.append(ManagedProcess(f"worker-{number}", work, folder, environment, has_logged("worker started")))
        proxy, url = proxy_process(folder, [f"127.0.0.1:{port}" for port in ports])
        parts.append(proxy)
        for part in parts:
            stack.callback(part.kill)
            part.begin()
        for part in parts:
            part.await_up()
        named = {part.name: part for part in parts}
        yield Cluster(url, urls, named, postgres, s3, registry, make_admin(registry))


def make_admin(registry: Registry) -> str:
    with registry.database.write_transaction() as session:
        return issue_token(session, OPERATOR, create_user(session, OPERATOR, "admin", "admin").id).text
