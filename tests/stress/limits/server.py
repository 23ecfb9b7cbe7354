"""The service as a separate process on SQLite and a folder, with its memory, sockets and metrics."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.settings import ServiceSettings
from tests.e2e.cluster import SERVE
from tests.e2e.process import ManagedProcess, answers, process_environment, read_metric
from tests.servers.processes import find_free_ports
from tests.service.deployment import Deployment
from tests.service.server_fixture import open_deployment
from tests.stress.limits.memory import Memory, memory_of

LEAKING = (sys.executable, "-m", "tests.stress.faulty_server", "leaking")


@dataclass(frozen=True)
class ServerProcess:
    """A registry, the process that serves it, and its port."""

    deployment: Deployment
    part: ManagedProcess
    port: int

    @property
    def memory(self) -> Memory:
        return memory_of(self.part.pid)

    @property
    def sockets(self) -> int:
        count = 0
        for file in Path(f"/proc/{self.part.pid}/fd").iterdir():
            try:
                count += file.readlink().name.startswith("socket:")
            except FileNotFoundError:  # closed meanwhile
                continue
        return count

    def metric(self, name: str) -> float:
        return read_metric(self.deployment.url, self.deployment.tokens["admin"], name)


@contextmanager
def start_server(
    folder: Path, template: Path, command: Sequence[str] = SERVE, **settings: str | float
) -> Iterator[ServerProcess]:
    """Run the service on a new registry; the folder keeps its log."""
    home = folder / "home"
    home.mkdir()
    (home / "registry.db").write_bytes(template.read_bytes())
    [port] = find_free_ports(1)
    url = f"http://127.0.0.1:{port}"
    environment = process_environment(home, port, {"log_level": "warning", **settings})
    part = ManagedProcess("service", command, folder, environment, answers(f"{url}/readyz"))
    with open_deployment(ServiceSettings(home=home, database="", objects="", weights="random")) as deployment:
        deployment.url = url
        try:
            part.start()
            yield ServerProcess(deployment, part, port)
        finally:
            part.kill()
