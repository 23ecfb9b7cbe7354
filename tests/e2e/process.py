"""One process of the cluster: started, asked to end, killed, and started again, with a log that outlives it."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from tests.servers.processes import start, stop, tail_of, until

START_SECONDS = 180.0  # importing torch takes seconds, and many times that on a busy machine
END_SECONDS = 120.0  # what was begun is drained first


class ManagedProcess:
    """A command that is up once its condition holds; its log goes on where the last run ended."""

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
        self._begins_at = 0  # in the log, this run

    @property
    def is_running(self) -> bool:
        """Whether the process is there, be it up or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def said(self) -> str:
        """What stands in the log of this run."""
        with self.log.open("rb") as log:
            log.seek(self._begins_at)
            return log.read().decode(errors="replace")

    def begin(self, command: Sequence[str] | None = None) -> None:
        """The process is on its way, by another command than the last time if one is given.

        It ends with the thread that calls this, so that none is left behind: call it in one that stays.
        """
        assert not self.is_running, f"{self.name} runs already"
        if command is not None:
            self._command = list(command)
        self._begins_at = self.log.stat().st_size if self.log.exists() else 0
        self._process = start(self._command, self.log, env=self._environment)

    def await_up(self) -> None:
        """The condition holds; AssertionError with the end of the log if the process has ended instead."""

        def is_settled() -> bool:
            assert self.is_running, f"{self.name} has ended; its log ends:\n{tail_of(self.log)}"
            return self._is_up(self)

        until(is_settled, f"the start of {self.name}", wait_s=START_SECONDS)

    def start(self) -> None:
        """The process is up."""
        self.begin()
        self.await_up()

    def kill(self) -> None:
        """The process is gone at once, without a chance to tidy up."""
        if self._process is not None:
            stop(self._process, signal.SIGKILL)

    def terminate(self) -> int:
        """The process has ended in its own way; returns how."""
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(END_SECONDS)
        finally:
            self.kill()

    def signal(self, sign: signal.Signals) -> None:
        """Sends the signal and waits for nothing."""
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(sign)


def has_logged(text: str) -> Callable[[ManagedProcess], bool]:
    """A part is up when its log has this in it."""
    return lambda part: text in part.said


def answers(url: str) -> Callable[[ManagedProcess], bool]:
    """A part is up when a GET of this is answered well."""

    def is_answered(_: ManagedProcess) -> bool:
        try:
            return httpx.get(url, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    return is_answered
