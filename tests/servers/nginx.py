"""nginx with the deployed configuration, docker/nginx.conf, on another port and in front of other replicas."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.processes import find_free_ports, read_log_tail, start_process, stop_process, wait_until

DEPLOYED = Path(__file__).parents[2] / "docker" / "nginx.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")  # Debian's is not on every user's PATH
NO_NGINX = "nginx is not installed: apt-get install nginx-light"


def nginx_command(folder: Path, listen: str, replicas: Sequence[str]) -> list[str]:
    """Write the configuration to the folder and return the command that starts nginx with it."""
    assert NGINX is not None, NO_NGINX
    shutil.copy(DEPLOYED, folder)
    (folder / "listen.conf").write_text(listen)
    (folder / "servers.conf").write_text("".join(f"server {address} max_fails=0;\n" for address in replicas))
    # Started by root, nginx would run its workers as a user that may not enter the folder.
    directives = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    return [NGINX, "-p", f"{folder}/", "-c", str(folder / "nginx.conf"), "-e", "stderr", "-g", directives]


@contextmanager
def serve_nginx(folder: Path, replicas: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Run nginx in front of the replicas; yield its address and its log."""
    [port] = find_free_ports(1)
    log = folder / "log"
    process = start_process(nginx_command(folder, f"listen 127.0.0.1:{port};", replicas), log)
    try:
        wait_until(lambda: process.poll() is not None or _is_listening(port), "the start of nginx")
        assert process.poll() is None, read_log_tail(log)
        yield f"127.0.0.1:{port}", log
    finally:
        stop_process(process, signal.SIGTERM)


def _is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
