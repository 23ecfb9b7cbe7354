"""The contenders as processes: started, kept still while others are measured, and ended together."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from tests.servers.processes import free_ports, start, stop, tail_of, until

ROOT = Path(__file__).parents[2]
START_SECONDS = 300.0
TICK = os.sysconf("SC_CLK_TCK")


class ServerEnded(RuntimeError):
    """A contender ended by itself; the message has the end of its log."""


@dataclass(frozen=True)
class Server:
    """A process group that listens on a port."""

    name: str
    port: int
    process: subprocess.Popen[bytes] = field(repr=False)
    is_restless: bool = False  # polls even while nobody asks: it is stopped when it is not its turn

    def pause(self) -> None:
        """Takes no time from others."""
        if self.is_restless:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Answers again."""
        if self.is_restless:
            os.killpg(self.process.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """What all its processes have computed so far."""
        return sum(_cpu_seconds(Path("/proc"), self.process.pid))

    def metrics(self, token: str) -> dict[str, float]:
        """The service's measurements, by name and labels."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310  # our own process
            lines = response.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


@contextmanager
def served(
    name: str, module: str, options: Sequence[str], folder: Path, env: Mapping[str, str], is_restless: bool = False
) -> Iterator[Server]:
    """`python -m MODULE --port N OPTIONS` as a server that listens."""
    port = free_ports(1)[0]
    log = folder / f"{name.replace(' ', '-')}.log"
    log.touch()
    command = [sys.executable, "-m", module, *options, "--port", str(port)]
    process = start(command, log, env={**os.environ, "PYTHONPATH": str(ROOT), **env})
    server = Server(name, port, process, is_restless)
    try:
        until(lambda: _is_listening(server, log), f"{name} listens", wait_s=START_SECONDS)
        yield server
    finally:
        server.resume()
        stop(process, signal.SIGTERM)


def is_healthy(server: Server) -> bool:
    """Whether a server that tells so at /health is ready to the last of its workers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health") as response:
            return bool(response.status == HTTPStatus.OK)
    except urllib.error.URLError:
        return False


def _is_listening(server: Server, log: Path) -> bool:
    if server.process.poll() is not None:
        raise ServerEnded(f"{server.name} ended by itself:\n{tail_of(log)}")
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except OSError:
        return False
    return True


def _cpu_seconds(proc: Path, group: int) -> Iterator[float]:
    for stat in proc.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[2]) == group:
            yield (int(fields[11]) + int(fields[12])) / TICK
