"""The production shape as processes on one machine: PostgreSQL, S3, a proxy, replicas and workers."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.registry import Registry, open_registry, upgrade_registry
from registry.settings import RegistrySettings
from tests.e2e.process import ManagedProcess, answers, has_logged, proxy_process
from tests.servers.postgres import PostgresServer, serve_postgres
from tests.servers.processes import find_free_ports, read_log_tail
from tests.servers.s3 import REGION, OwnS3Server, serve_own_s3

ROOT = Path(__file__).parents[2]
BUCKET = "alacarte"
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
        """Return the workers."""
        return [part for name, part in self.parts.items() if name.startswith("worker-")]

    def restart_replicas(self, command: Sequence[str]) -> None:
        """Restart all replicas with this command."""
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
    replicas: int = 2,
    workers: int = 2,
    serve: Sequence[str] = SERVE,
    work: Sequence[str] = WORK,
    durable: bool = False,
) -> Iterator[Cluster]:
    """Start everything, with an admin and no data; the folder keeps the logs.

    Backbones have random weights, so that nothing is downloaded. A durable database syncs its log.
    """
    with ExitStack() as stack:
        postgres = stack.enter_context(serve_postgres(durable=durable))
        s3 = stack.enter_context(serve_own_s3())
        database = postgres.make_database()
        stack.callback(postgres.drop_database, database)
        shared = {
            "ALACARTE_DATABASE": database,
            "ALACARTE_OBJECTS": f"s3://{BUCKET}/registry",
            "ALACARTE_S3_ENDPOINT": s3.address.endpoint,
            "ALACARTE_S3_REGION": REGION,
            "ALACARTE_S3_ACCESS_KEY": s3.address.access_key,
            "ALACARTE_S3_SECRET_KEY": s3.address.secret_key,
        }
        settings = RegistrySettings.model_validate(
            {name.removeprefix("ALACARTE_").lower(): value for name, value in shared.items()}
            | {"home": folder / "test"}
        )
        upgrade_registry(settings)
        registry = open_registry(settings)
        stack.callback(registry.database.close)
        ports = find_free_ports(replicas)
        urls = tuple(f"http://127.0.0.1:{port}" for port in ports)
        parts = []
        for number, (port, url) in enumerate(zip(ports, urls, strict=True), 1):
            name = f"replica-{number}"
            parts.append(
                ManagedProcess(name, serve, folder, _environment(shared, folder / name, port), answers(f"{url}/readyz"))
            )
        for number in range(1, workers + 1):
            name = f"worker-{number}"
            parts.append(
                ManagedProcess(name, work, folder, _environment(shared, folder / name), has_logged("worker started"))
            )
        proxy, url = proxy_process(folder, [f"127.0.0.1:{port}" for port in ports])
        parts.append(proxy)
        for part in parts:
            stack.callback(part.kill)
            part.begin()
        for part in parts:
            part.await_up()
        named = {part.name: part for part in parts}
        yield Cluster(url, urls, named, postgres, s3, registry, _make_admin(registry))


def _environment(shared: dict[str, str], home: Path, port: int = 0) -> dict[str, str]:
    """Return the environment without the caller's own settings; each process has its own home, as on its own host."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ALACARTE_", "AWS_"))}
    own = {
        "ALACARTE_HOME": str(home),
        "ALACARTE_PORT": str(port),
        "ALACARTE_WEIGHTS": "random",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    return inherited | shared | own


def _make_admin(registry: Registry) -> str:
    with registry.database.write_transaction() as session:
        return issue_token(session, OPERATOR, create_user(session, OPERATOR, "admin", "admin").id).text
