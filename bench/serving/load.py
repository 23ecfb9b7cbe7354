"""Measures one contender: under load by the client process, or with single requests from this process."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path

from bench.serving.bare_model import BareModel
from bench.serving.http_messages import MessageReader, build_form, build_request, parse_status
from bench.serving.processes.load_client import LoadOptions, LoadReport
from bench.serving.server_process import ROOT, ServerProcess
from bench.serving.stats import mean_seconds, steady_state

WARMUP_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0
IDLE_SECONDS = 0.05  # until the threads of a pass in this process stop spinning
RIGHTS_METRIC = "alacarte_rights_seconds"


class ContenderFailed(RuntimeError):
    """A contender gave responses other than 200, so its results cannot be compared."""


@dataclass(frozen=True)
class Contender:
    """A server, and the tokens of the requests to it."""

    name: str
    server: ServerProcess
    tokens: Sequence[str | None] = (None,)
    admin: str | None = None  # a token that may read the server's metrics, if it has any


@dataclass(frozen=True)
class LoadResult:
    """The measurements of a contender under load."""

    per_second: float
    seconds: list[float]  # of each request
    cpu_seconds: float  # of all server processes, per request
    rights_seconds: float | None
    recheck_seconds: float | None


def measure_load(contender: Contender, pictures: Path, connections: int, seconds: float) -> LoadResult:
    """Measure the contender with this many requests in flight."""
    server, admin = contender.server, contender.admin
    server.resume()
    try:
        before = {} if admin is None else server.metrics(admin)
        cpu_before = server.cpu_seconds()
        report = run_client(contender, pictures, connections, seconds=WARMUP_SECONDS + seconds)
        cpu_seconds = (server.cpu_seconds() - cpu_before) / len(report.sent)
        after = {} if admin is None else server.metrics(admin)
    finally:
        server.pause()
    per_second, seconds_each = steady_state(report.began, report.ended, report.sent, report.answered, WARMUP_SECONDS)
    rights, recheck = (
        mean_seconds(before, after, RIGHTS_METRIC, f'{{phase="{phase}"}}') for phase in ("initial", "recheck")
    )
    return LoadResult(per_second, seconds_each, cpu_seconds, rights, recheck)


def send_single_requests(contender: Contender, pictures: Sequence[bytes], requests: int, start: int) -> LoadReport:
    """Send requests one after the other, after an uncounted one that wakes the server."""
    forms, tokens = [build_form(picture) for picture in pictures], contender.tokens
    timestamps: list[tuple[float, float]] = []
    contender.server.resume()
    try:
        with socket.create_connection(("127.0.0.1", contender.server.port), TIMEOUT_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in range(start - 1, start + requests):
                request = build_request(forms[number % len(forms)], tokens[number % len(tokens)])
                sent = time.perf_counter()
                connection.sendall(request)
                message = _receive(connection)
                timestamps.append((sent, time.perf_counter()))
                if parse_status(message) != HTTPStatus.OK:
                    raise ContenderFailed(f"{contender.name} answered {parse_status(message)}")
    finally:
        contender.server.pause()
    return _make_report(timestamps[1:])


def _receive(connection: socket.socket) -> bytes:
    reader = MessageReader()
    while data := connection.recv(2**16):
        message = reader.feed(data)
        if message is not None:
            return message
    raise ContenderFailed("the connection was closed before the response")


def run_client(
    contender: Contender,
    pictures: Path,
    connections: int,
    seconds: float | None = None,
    requests: int | None = None,
) -> LoadReport:
    """Run the client process and return its report."""
    options = LoadOptions(contender.server.port, str(pictures), list(contender.tokens), connections, seconds, requests)
    command = [sys.executable, "-m", "bench.serving.processes.load_client", json.dumps(asdict(options))]
    client = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603  # our own
    if client.returncode:
        raise ContenderFailed(f"{contender.name}: the client failed: {client.stderr.strip().splitlines()[-1]}")
    report = LoadReport(**json.loads(client.stdout))
    if report.refused:
        raise ContenderFailed(f"{contender.name} answered {report.refused}")
    return report


def compute_single(model: BareModel, pictures: Sequence[bytes], requests: int, start: int) -> LoadReport:
    """Predict pictures one after the other in this process, without a server; otherwise as `send_single_requests`."""
    timestamps: list[tuple[float, float]] = []
    for number in range(start - 1, start + requests):
        sent = time.perf_counter()
        model.predict_one(pictures[number % len(pictures)])
        timestamps.append((sent, time.perf_counter()))
    time.sleep(IDLE_SECONDS)
    return _make_report(timestamps[1:])


def _make_report(timestamps: Sequence[tuple[float, float]]) -> LoadReport:
    sent, answered = zip(*timestamps, strict=True)
    return LoadReport(sent[0], answered[-1], list(sent), list(answered))
