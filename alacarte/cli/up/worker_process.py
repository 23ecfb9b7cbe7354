"""`alacarte work` as a child process that ends with its parent, however the parent ends.

Run as a module, it is that child: it terminates itself at the end of its stdin, whose other end the parent holds.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULE = "alacarte.cli.up.worker_process"
GRACE_SECONDS = 60.0  # for returning the lease of the shard in training
RESTART_SECONDS = 5.0  # between the end of a worker and its restart
STDIN = 0


class WorkerProcess:
    """A worker that writes to a log file, is restarted when it ends by itself, and is stopped with SIGTERM."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._command = [sys.executable, "-m", MODULE, *arguments]
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._restart_at: float | None = None

    @property
    def pid(self) -> int | None:
        """The process id, if it was started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, or start it again."""
        self._close_stdin()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,  # its end tells the child that this process is gone
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches this process only, which stops the child
            )

    def restart_if_ended(self) -> bool:
        """Restart a worker that ended by itself, after a pause; return True when its end is first noticed."""
        if self._process is None or self._process.poll() is None:
            return False
        if self._restart_at is None:
            self._restart_at = time.monotonic() + RESTART_SECONDS
            return True
        if time.monotonic() >= self._restart_at:
            self._restart_at = None
            self.start()
        return False

    def terminate(self) -> None:
        """Ask the worker to return its work and end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Wait until it has ended; kill it after the grace period or on KeyboardInterrupt."""
        if self._process is None:
            return
        try:
            self._process.wait(grace_seconds)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def main() -> None:
    """Run the command `alacarte` until it ends or the parent process is gone."""
    from alacarte.cli.main import main as run_command

    threading.Thread(target=_terminate_at_end_of_stdin, name="parent", daemon=True).start()
    run_command()


def _terminate_at_end_of_stdin() -> None:
    while os.read(STDIN, 1):  # nothing is ever written: it returns when the parent's end is closed
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
