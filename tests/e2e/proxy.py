"""The proxy of the cluster: nginx by the very file that is deployed, told where to listen and whom to ask."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.process import ManagedProcess, answers
from tests.servers.processes import ServerUnavailable, free_ports

DEPLOYED = Path(__file__).parents[2] / "docker" / "nginx.conf"
NO_NGINX = "no proxy for tests: apt-get install nginx-light"
DEBIAN = "/usr/sbin/nginx"  # which is not on everybody's PATH


def find_nginx() -> str | None:
    """The proxy's program, if the machine has it."""
    return shutil.which("nginx") or (DEBIAN if Path(DEBIAN).exists() else None)


def proxy_process(folder: Path, replicas: Sequence[str]) -> tuple[ManagedProcess, str]:
    """The proxy in front of these addresses, not yet started, and its URL."""
    binary = find_nginx()
    if binary is None:
        raise ServerUnavailable(NO_NGINX)
    home = folder / "proxy"
    home.mkdir()
    [port] = free_ports(1)
    shutil.copy(DEPLOYED, home)
    (home / "listen.conf").write_text(f"listen 127.0.0.1:{port};\n")
    # As the deployed servers.conf has them, but that addresses need no DNS.
    (home / "servers.conf").write_text("".join(f"server {address} max_fails=0;\n" for address in replicas))
    # Workers of a server that root starts would be somebody who may not enter the folder.
    switches = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    command = [binary, "-p", f"{home}/", "-c", str(home / "nginx.conf"), "-e", "stderr", "-g", switches]
    url = f"http://127.0.0.1:{port}"
    return ManagedProcess("proxy", command, folder, os.environ, answers(f"{url}/healthz")), url
