"""What starting any server takes: free ports, a process that does not outlive its parent, a wait for a condition."""

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

# Below the range from which systems give ports to outgoing connections, so that none of those takes one meanwhile.
PORTS = range(20_000, 32_000)


class ServerUnavailable(RuntimeError):
    """A server that tests need cannot be had, and the message says what to install or set."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nothing listened a moment ago."""
    found: list[int] = []
    # Workers that start at once must not walk through the ports in one order.
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ServerUnavailable(f"no {count} free ports in {PORTS}: end some servers")


def start(
    command: Sequence[str], log: Path, *, env: dict[str, str] | None = None, user: int | None = None
) -> subprocess.Popen[bytes]:
    """The command in a process group of its own, which ends when this process is killed, where the system can do so."""
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


def stop(process: subprocess.Popen[bytes], sign: signal.Signals, *, wait_s: float = 10) -> None:
    """The process and its group are gone: asked by the signal first, killed if that does not help."""
    if process.poll() is None:
        process.send_signal(sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until(condition: Callable[[], bool], what: str = "the condition", *, wait_s: float = 60) -> None:
    """Return as soon as the condition holds; TimeoutError says what did not happen."""
    end = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {wait_s} s")
        time.sleep(0.02)


def tail_of(log: Path) -> str:
    """The last lines of a server's log, for the message of a failed start."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
