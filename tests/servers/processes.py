"""Start and stop server processes: free ports, a process that does not outlive its parent, a wait for a condition."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

# Below the range of ephemeral ports, so that no outgoing connection takes one meanwhile.
PORTS = range(20_000, 32_000)


class ServerUnavailable(RuntimeError):
    """A server that tests need cannot be started; the message says what to install or set."""


def find_free_ports(count: int) -> list[int]:
    """Return free ports of the loopback interface."""
    ports: list[int] = []
    # In random order, because test workers that start at the same time would otherwise try the same ports.
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise ServerUnavailable(f"fewer than {count} free ports in {PORTS}: stop some servers")


def start_process(
    command: Sequence[str], log: Path, *, env: dict[str, str] | None = None, user: int | None = None
) -> subprocess.Popen[bytes]:
    """Start the command in a process group of its own, which is killed with this process where `setpriv` exists."""
    if setpriv := shutil.which("setpriv"):
        command = [setpriv, "--pdeathsig", "KILL", *command]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env=env,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )


def stop_process(process: subprocess.Popen[bytes], sign: signal.Signals, *, wait_s: float = 10) -> None:
    """End the process and its group, by the signal first and by SIGKILL if that does not help."""
    if process.poll() is None:
        process.send_signal(sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(condition: Callable[[], bool], what: str = "the condition", *, wait_s: float = 60) -> None:
    """Wait until the condition is true; the TimeoutError names what was awaited."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {wait_s} s")
        time.sleep(0.02)


def read_log_tail(log: Path) -> str:
    """Return the last lines of a server's log, for the message of a failed start."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
