"""One service as a process of its own, on SQLite and a folder, with a world in it and a look at its memory."""

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
from registry.storage.scratch import ScratchHome
from service.settings import ServiceSettings
from tests.e2e.cluster import ROOT, SERVE
from tests.e2e.process import ManagedProcess, answers
from tests.servers.processes import free_ports
from tests.service.deployment import World
from tests.stress.limits.memory import Memory, memory_of


@dataclass(frozen=True)
class ServerProcess:
    """The world, the process that serves it, and its port."""

    world: World
    part: ManagedProcess
    port: int

    @property
    def memory(self) -> Memory:
        """What the process takes now."""
        return memory_of(self.part.pid)

    @property
    def sockets(self) -> int:
        """How many sockets the process has open."""
        found = 0
        for file in Path(f"/proc/{self.part.pid}/fd").iterdir():
            try:
                found += file.readlink().name.startswith("socket:")
            except FileNotFoundError:  # closed meanwhile
                continue
        return found

    def measured(self, name: str) -> float:
        """A measurement of the service, without labels."""
        told = self.world.ask("admin", "GET", "/metrics").text
        [line] = [line for line in told.splitlines() if line.startswith(f"alacarte_{name} ")]
        return float(line.split()[1])


@contextmanager
def start_server(
    folder: Path, template: Path, command: Sequence[str] = SERVE, **settings: str | float
) -> Iterator[ServerProcess]:
    """The service is up, with a world in it that the test made; the folder keeps its log."""
    home = folder / "home"
    home.mkdir()
    (home / "registry.db").write_bytes(template.read_bytes())
    told = ServiceSettings(home=home, database="", objects="", weights="random")
    objects = FolderStore(home / "objects")
    objects.prepare()
    database = Database(told.database_url)
    mark_store(database, objects)
    signer = open_signer(told.signing_key_file)
    world = World(Registry(database, objects, ScratchHome(told.scratch_folder), signer))
    [port] = free_ports(1)
    world.url = f"http://127.0.0.1:{port}"
    part = ManagedProcess(
        "service", command, folder, _environment(home, port, settings), answers(f"{world.url}/readyz")
    )
    try:
        part.start()
        yield ServerProcess(world, part, port)
    finally:
        part.kill()
        world.client.close()
        database.close()


def _environment(home: Path, port: int, settings: dict[str, str | float]) -> dict[str, str]:
    """Nothing of the caller's own settings."""
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
