"""The servers as processes: started, stopped while others are measured, and ended together."""

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

from tests.servers.processes import find_free_ports, read_log_tail, start_process, stop_process, wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 300.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ServerExited(RuntimeError):
    """A server exited by itself; the message has the end of its log."""


@dataclass(frozen=True)
class ServerProcess:
    """A process group that listens on a port."""

    name: str
    port: int
    process: subprocess.Popen[bytes] = field(repr=False)
    polls_when_idle: bool = False  # such a server is stopped while others are measured

    def pause(self) -> None:
        """Stop the server if it would take time from others."""
        if self.polls_when_idle:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a stopped server."""
        if self.polls_when_idle:
            os.killpg(self.process.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all its processes so far."""
        return sum(_cpu_seconds(Path("/proc"), self.process.pid))

    def metrics(self, token: str) -> dict[str, float]:
        """Return the service's metrics by name and labels."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310  # our own process
            lines = response.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


@contextmanager
def start_server(
    name: str, module: str, options: Sequence[str], folder: Path, env: Mapping[str, str], polls_when_idle: bool = False
) -> Iterator[ServerProcess]:
    """Run `python -m MODULE --port N OPTIONS` and wait until it listens."""
    port = find_free_ports(1)[0]
    log = folder / f"{name.replace(' ', '-')}.log"
    log.touch()
    command = [sys.executable, "-m", module, *options, "--port", str(port)]
    process = start_process(command, log, env={**os.environ, "PYTHONPATH": str(ROOT), **env})
    server = ServerProcess(name, port, process, polls_when_idle)
    try:
        wait_until(lambda: _is_listening(server, log), f"{name} listens", wait_s=START_SECONDS)
        yield server
    finally:
        server.resume()
        stop_process(process, signal.SIGTERM)


def is_healthy(server: ServerProcess) -> bool:
    """Whether /health reports that all workers are ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health") as response:
            return bool(response.status == HTTPStatus.OK)
    except urllib.error.URLError:
        return False


def _is_listening(server: ServerProcess, log: Path) -> bool:
    if server.process.poll() is not None:
        raise ServerExited(f"{server.name} exited by itself:\n{read_log_tail(log)}")
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except OSError:
        return False
    return True


def _cpu_seconds(proc: Path, group: int) -> Iterator[float]:
    for stat in proc.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # the process has exited
            continue
        if int(fields[2]) == group:
            yield (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
