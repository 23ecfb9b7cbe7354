"""Lone requests of the bench, asked of a real server over a real socket."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench.serving.load import Contender, Refused, ask_alone
from bench.serving.server_process import Server

PICTURES = (b"first", b"second", b"third")

Answer = Callable[[int], HTTPStatus | None]  # to the nth request; None closes the connection without one


@contextmanager
def contender(answer: Answer) -> Iterator[tuple[Contender, list[tuple[str, bytes]]]]:
    """A server that answers so, and the tokens and bodies that it got."""
    got: list[tuple[str, bytes]] = []

    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Authorization"], body))
            status = answer(len(got))
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server,
        subprocess.Popen([sys.executable, "-c", ""]) as process,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Contender("ours", Server("ours", server.server_port, process), ("ann", "bob")), got
        finally:
            server.shutdown()


def test_lone_requests_come_one_after_the_other_and_the_first_does_not_count() -> None:
    with contender(lambda _: HTTPStatus.OK) as (ours, got):
        report = ask_alone(ours, PICTURES, requests=4, start=3)

    assert [next(name for name in PICTURES if name in body) for _, body in got] == [
        b"third",  # wakes it up
        b"first",
        b"second",
        b"third",
        b"first",
    ]
    assert [token for token, _ in got] == [f"Bearer {name}" for name in ("ann", "bob", "ann", "bob", "ann")]
    assert len(report.sent) == len(report.answered) == 4
    moments = [moment for both in zip(report.sent, report.answered, strict=True) for moment in both]
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    ("second", "says"),
    [(HTTPStatus.SERVICE_UNAVAILABLE, "ours answered 503"), (None, "closed before the answer")],
    ids=["refused", "closed"],
)
def test_whoever_does_not_answer_is_not_measured(second: HTTPStatus | None, says: str) -> None:
    with (
        contender(lambda number: second if number == 2 else HTTPStatus.OK) as (ours, _),
        pytest.raises(Refused, match=says),
    ):
        ask_alone(ours, PICTURES, requests=4, start=0)
