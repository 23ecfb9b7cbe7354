"""The deployed proxy on this machine: docker/nginx.conf as it is, with another place to listen and other replicas."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.docker.files import DOCKER
from tests.servers.processes import free_ports, start, stop, tail_of, until

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def write_proxy(folder: Path, listen: str, replicas: Sequence[str]) -> list[str]:
    """The command of a proxy that lives in the folder, listens by these lines and asks these addresses."""
    assert NGINX is not None
    shutil.copy(DOCKER / "nginx.conf", folder)
    (folder / "listen.conf").write_text(listen)
    (folder / "servers.conf").write_text("".join(f"server {address} max_fails=0;\n" for address in replicas))
    # Workers of a server that root starts would be somebody who may not enter the folder.
    switches = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    return [NGINX, "-p", f"{folder}/", "-c", str(folder / "nginx.conf"), "-e", "stderr", "-g", switches]


@contextmanager
def serve_proxy(folder: Path, replicas: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The address of a proxy that is up, and its log."""
    [port] = free_ports(1)
    log = folder / "log"
    process = start(write_proxy(folder, f"listen 127.0.0.1:{port};", replicas), log)
    try:
        until(lambda: process.poll() is not None or _listens(port), "the start of the proxy")
        assert process.poll() is None, tail_of(log)
        yield f"127.0.0.1:{port}", log
    finally:
        stop(process, signal.SIGTERM)


def _listens(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0
