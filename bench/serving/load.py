"""One contender's part of a round: asked by the client under load, or by this process alone, and what that tells."""

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
from bench.serving.http_messages import Arriving, form_of, request_of, status_of
from bench.serving.processes.load_client import Plan, Report
from bench.serving.server_process import ROOT, Server
from bench.serving.stats import mean_seconds, settled

SETTLE_SECONDS = 1.0
ANSWER_SECONDS = 60.0
REST_SECONDS = 0.05  # after which the threads of a pass in this process have ceased to wait for another
RIGHTS = "alacarte_rights_seconds"


class Refused(RuntimeError):
    """A contender gave other answers than 200: what it did cannot be compared."""


@dataclass(frozen=True)
class Contender:
    """A server, and in whose name it is asked."""

    name: str
    server: Server
    tokens: Sequence[str | None] = (None,)
    admin: str | None = None  # whose token may read the server's measurements, if it has any


@dataclass(frozen=True)
class Loaded:
    """What a contender did under load."""

    per_second: float
    seconds: list[float]  # of each request
    cpu_seconds: float  # of the server's processes, for each request
    rights_seconds: float | None
    recheck_seconds: float | None


def load(contender: Contender, pictures: Path, connections: int, seconds: float) -> Loaded:
    """The contender alone, with so many requests under way all the time."""
    server, admin = contender.server, contender.admin
    server.resume()
    try:
        before = {} if admin is None else server.metrics(admin)
        cpu_before = server.cpu_seconds()
        report = ask(contender, pictures, connections, seconds=SETTLE_SECONDS + seconds)
        cpu_seconds = (server.cpu_seconds() - cpu_before) / len(report.sent)
        after = {} if admin is None else server.metrics(admin)
    finally:
        server.pause()
    per_second, each = settled(report.began, report.ended, report.sent, report.answered, SETTLE_SECONDS)
    rights, recheck = (mean_seconds(before, after, RIGHTS, f'{{phase="{phase}"}}') for phase in ("initial", "recheck"))
    return Loaded(per_second, each, cpu_seconds, rights, recheck)


def ask_alone(contender: Contender, pictures: Sequence[bytes], requests: int, start: int) -> Report:
    """So many requests, one after the other, and one before them that wakes the server and does not count."""
    forms, tokens = [form_of(picture) for picture in pictures], contender.tokens
    moments: list[tuple[float, float]] = []
    contender.server.resume()
    try:
        with socket.create_connection(("127.0.0.1", contender.server.port), ANSWER_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in range(start - 1, start + requests):
                request = request_of(forms[number % len(forms)], tokens[number % len(tokens)])
                sent = time.perf_counter()
                connection.sendall(request)
                message = _received(connection)
                moments.append((sent, time.perf_counter()))
                if status_of(message) != HTTPStatus.OK:
                    raise Refused(f"{contender.name} answered {status_of(message)}")
    finally:
        contender.server.pause()
    return _report(moments[1:])


def _received(connection: socket.socket) -> bytes:
    arriving = Arriving()
    while data := connection.recv(2**16):
        message = arriving.take(data)
        if message is not None:
            return message
    raise Refused("the connection was closed before the answer")


def ask(
    contender: Contender,
    pictures: Path,
    connections: int,
    seconds: float | None = None,
    requests: int | None = None,
) -> Report:
    """What the client, in its own process, reports."""
    plan = Plan(contender.server.port, str(pictures), list(contender.tokens), connections, seconds, requests)
    command = [sys.executable, "-m", "bench.serving.processes.load_client", json.dumps(asdict(plan))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603  # our own
    if ended.returncode:
        raise Refused(f"{contender.name}: the client failed: {ended.stderr.strip().splitlines()[-1]}")
    report = Report(**json.loads(ended.stdout))
    if report.refused:
        raise Refused(f"{contender.name} answered {report.refused}")
    return report


def compute_alone(model: BareModel, pictures: Sequence[bytes], requests: int, start: int) -> Report:
    """So many pictures, one after the other, decoded and passed in this process, without any server; as `ask_alone`."""
    moments: list[tuple[float, float]] = []
    for number in range(start - 1, start + requests):
        sent = time.perf_counter()
        model.answer(pictures[number % len(pictures)])
        moments.append((sent, time.perf_counter()))
    time.sleep(REST_SECONDS)
    return _report(moments[1:])


def _report(moments: Sequence[tuple[float, float]]) -> Report:
    sent, answered = zip(*moments, strict=True)
    return Report(sent[0], answered[-1], list(sent), list(answered))
