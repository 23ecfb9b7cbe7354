"""Single requests of the benchmark to a real server over a real socket."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

import pytest

from bench.serving.load import Contender, ContenderFailed, send_single_requests
from bench.serving.server_process import ServerProcess
from tests.servers.http_server import serve_http

PICTURES = (b"first", b"second", b"third")

StatusOf = Callable[[int], HTTPStatus | None]  # of the nth response; None closes the connection instead


@contextmanager
def run_contender(status_of: StatusOf) -> Iterator[tuple[Contender, list[tuple[str, bytes]]]]:
    """Run a server with these statuses; yield it and the tokens and bodies that it received."""
    received: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.headers["Authorization"], body))
            status = status_of(len(received))
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with serve_http(Handler) as port, subprocess.Popen([sys.executable, "-c", ""]) as process:
        yield Contender("ours", ServerProcess("ours", port, process), ("ann", "bob")), received


def test_single_requests_are_sequential_and_the_first_does_not_count() -> None:
    with run_contender(lambda _: HTTPStatus.OK) as (ours, received):
        report = send_single_requests(ours, PICTURES, requests=4, start=3)

    assert [next(name for name in PICTURES if name in body) for _, body in received] == [
        b"third",  # the uncounted first request
        b"first",
        b"second",
        b"third",
        b"first",
    ]
    assert [token for token, _ in received] == [f"Bearer {name}" for name in ("ann", "bob", "ann", "bob", "ann")]
    assert len(report.sent) == len(report.answered) == 4
    timestamps = [time for pair in zip(report.sent, report.answered, strict=True) for time in pair]
    assert timestamps == sorted(timestamps)


@pytest.mark.parametrize(
    ("second", "message"),
    [(HTTPStatus.SERVICE_UNAVAILABLE, "ours answered 503"), (None, "closed before the response")],
    ids=["refused", "closed"],
)
def test_a_contender_that_fails_is_not_measured(second: HTTPStatus | None, message: str) -> None:
    with (
        run_contender(lambda number: second if number == 2 else HTTPStatus.OK) as (ours, _),
        pytest.raises(ContenderFailed, match=message),
    ):
        send_single_requests(ours, PICTURES, requests=4, start=0)
