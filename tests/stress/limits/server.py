"""The service as a separate process on SQLite and a folder, with its memory, sockets and metrics."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from service.settings import ServiceSettings
from tests.e2e.cluster import ROOT, SERVE
from tests.e2e.process import ManagedProcess, answers
from tests.servers.processes import find_free_ports
from tests.service.deployment import Deployment
from tests.stress.limits.memory import Memory, memory_of


@dataclass(frozen=True)
class ServerProcess:
    """A registry, the process that serves it, and its port."""

    deployment: Deployment
    part: ManagedProcess
    port: int

    @property
    def memory(self) -> Memory:
        """Return the memory of the process."""
        return memory_of(self.part.pid)

    @property
    def sockets(self) -> int:
        """Count the open sockets of the process."""
        count = 0
        for file in Path(f"/proc/{self.part.pid}/fd").iterdir():
            try:
                count += file.readlink().name.startswith("socket:")
            except FileNotFoundError:  # closed meanwhile
                continue
        return count

    def metric(self, name: str) -> float:
        """Read a metric without labels."""
        text = self.deployment.request("admin", "GET", "/metrics").text
        [line] = [line for line in text.splitlines() if line.startswith(f"alacarte_{name} ")]
        return float(line.split()[1])


@contextmanager
def start_server(
    folder: Path, template: Path, command: Sequence[str] = SERVE, **settings: str | float
) -> Iterator[ServerProcess]:
    """Run the service on a new registry; the folder keeps its log."""
    home = folder / "home"
    home.mkdir()
    (home / "registry.db").write_bytes(template.read_bytes())
    service_settings = ServiceSettings(home=home, database="", objects="", weights="random")
    objects = FolderStore(home / "objects")
    objects.prepare()
    database = Database(service_settings.database_url)
    mark_store(database, objects)
    signer = open_signer(service_settings.signing_key_file)
    deployment = Deployment(Registry(database, objects, ScratchSpace(service_settings.scratch_folder), signer))
    [port] = find_free_ports(1)
    deployment.url = f"http://127.0.0.1:{port}"
    part = ManagedProcess(
        "service", command, folder, _environment(home, port, settings), answers(f"{deployment.url}/readyz")
    )
    try:
        part.start()
        yield ServerProcess(deployment, part, port)
    finally:
        part.kill()
        deployment.client.close()
        database.close()


def _environment(home: Path, port: int, settings: dict[str, str | float]) -> dict[str, str]:
    """Return the environment without the caller's own settings."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("ALACARTE_", "AWS_"))}
    return (
        mine
        | {
            "ALACARTE_HOME": str(home),
            "ALACARTE_PORT": str(port),
            "ALACARTE_WEIGHTS": "random",
            "ALACARTE_LOG_LEVEL": "warning",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        | {f"ALACARTE_{name.upper()}": str(value) for name, value in settings.items()}
    )


LEAKING = (sys.executable, "-m", "tests.stress.limits.leaking_server")
