"""One process of the cluster, which can be started, terminated, killed and restarted; its log continues."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from tests.servers.nginx import nginx_command
from tests.servers.processes import find_free_ports, read_log_tail, start_process, stop_process, wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 180.0  # importing torch takes seconds, and many times that on a busy machine
END_SECONDS = 120.0  # what was begun is drained first


class ManagedProcess:
    """A command that is up once its condition holds. All runs append to one log."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        is_up: Callable[["ManagedProcess"], bool],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._environment = dict(environment)
        self._is_up = is_up
        self._process: subprocess.Popen[bytes] | None = None
        self._begins_at = 0  # offset of this run in the log

    @property
    def is_running(self) -> bool:
        """Whether the process exists, ready or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_up(self) -> bool:
        return self._is_up(self)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def output(self) -> str:
        """Return the log of this run."""
        with self.log.open("rb") as log:
            log.seek(self._begins_at)
            return log.read().decode(errors="replace")

    def begin(self, command: Sequence[str] | None = None) -> None:
        """Start the process without waiting, with another command if one is given.

        The process ends with the calling thread, so that none is left behind: call this from a thread that stays.
        """
        assert not self.is_running, f"{self.name} runs already"
        if command is not None:
            self._command = list(command)
        self._begins_at = self.log.stat().st_size if self.log.exists() else 0
        self._process = start_process(self._command, self.log, env=self._environment)

    def await_up(self) -> None:
        """Wait until the condition holds; AssertionError with the end of the log if the process ends instead."""

        def is_settled() -> bool:
            assert self.is_running, f"{self.name} has ended; its log ends:\n{read_log_tail(self.log)}"
            return self.is_up

        wait_until(is_settled, f"the start of {self.name}", wait_s=START_SECONDS)

    def start(self) -> None:
        self.begin()
        self.await_up()

    def kill(self) -> None:
        if self._process is not None:
            stop_process(self._process, signal.SIGKILL)

    def terminate(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(END_SECONDS)
        finally:
            self.kill()


def process_environment(home: Path, port: int, settings: Mapping[str, object]) -> dict[str, str]:
    """Return the environment without the caller's own settings; each process has its own home, as on its own host."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ALACARTE_", "AWS_"))}
    given = {"home": home, "port": port, "weights": "random", **settings}
    python = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return inherited | {f"ALACARTE_{name.upper()}": str(value) for name, value in given.items()} | python


def has_logged(text: str) -> Callable[[ManagedProcess], bool]:
    """Return the condition that the log contains this text."""
    return lambda part: text in part.output


def answers(url: str) -> Callable[[ManagedProcess], bool]:
    """Return the condition that a GET of this URL succeeds."""

    def is_answered(_: ManagedProcess) -> bool:
        try:
            return httpx.get(url, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    return is_answered


def read_metric(url: str, token: str, name: str) -> float:
    """Read a metric without labels."""
    text = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}).text
    [value] = re.findall(rf"^alacarte_{name} (\S+)$", text, re.MULTILINE)
    return float(value)


def proxy_process(folder: Path, replicas: Sequence[str]) -> tuple[ManagedProcess, str]:
    """Return nginx in front of these addresses, not yet started, and its URL."""
    home = folder / "proxy"
    home.mkdir()
    [port] = find_free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = nginx_command(home, f"listen 127.0.0.1:{port};\n", replicas)
    return ManagedProcess("proxy", command, folder, os.environ, answers(f"{url}/healthz")), url
