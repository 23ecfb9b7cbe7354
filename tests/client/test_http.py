"""When nobody answers, or something else does: one clear line, and never the token."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte._client.json_fields import read
from alacarte._client.models import Prediction, Task, Verdict
from alacarte.client import AnswerUnreadable, Client, ServiceProblem, ServiceUnreachable
from tests.servers.processes import free_ports

TOKEN = "alc_abcdefghijkl_" + "s" * 43


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """The URL of something that always answers so."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_service_that_is_not_there_is_told_in_one_line() -> None:
    [port] = free_ports(1)
    with Client(f"http://127.0.0.1:{port}/", TOKEN) as client:
        with pytest.raises(ServiceUnreachable) as caught:
            client.me()

        message = str(caught.value)
        assert message.startswith(f"http://127.0.0.1:{port} cannot be reached: ")
        assert "\n" not in message
        assert "sss" not in f"{message} {client!r} {caught.value.__cause__!r}"
        assert not client.is_ready()


def test_a_service_that_is_silent_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, TOKEN, timeout=0.1) as client, pytest.raises(ServiceUnreachable, match="in time"):
            client.me()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"id": 3}', b"\xff"])
def test_something_else_that_answers_is_no_service(body: bytes) -> None:
    with answering(200, body) as url, Client(url, TOKEN) as client, pytest.raises(AnswerUnreadable):
        client.me()


def test_an_error_of_something_else_is_a_problem_too() -> None:
    with answering(502, b"<html>") as url, Client(url, TOKEN) as client, pytest.raises(ServiceProblem) as caught:
        client.me()

    assert (caught.value.status, str(caught.value)) == (502, "Bad Gateway (502)")


def test_a_redirect_is_told_and_the_token_does_not_follow_it() -> None:
    with (
        answering(308, b"", Location="https://elsewhere/") as url,
        Client(url, TOKEN) as client,
        pytest.raises(ServiceProblem, match="the service is at https://elsewhere/"),
    ):
        client.me()


def test_when_to_ask_again_is_told() -> None:
    body = json.dumps({"title": "Busy", "detail": "later", "type": "urn:alacarte:problem:busy"}).encode()
    with (
        answering(503, body, Retry_After="2") as url,
        Client(url, TOKEN) as client,
        pytest.raises(ServiceProblem) as caught,
    ):
        client.me()

    assert (caught.value.kind, caught.value.retry_after_s) == ("busy", 2.0)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "/tmp"])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="is no address of a service"):
        Client(url, TOKEN)


@pytest.mark.parametrize("token", ["", " \n", "ça", "a\nb"])
def test_what_is_no_token_is_refused_at_once(token: str) -> None:
    with pytest.raises(ValueError, match="copy it again"):
        Client("http://127.0.0.1:1", token)


texts = st.text(max_size=5)
tasks = st.builds(
    Task,
    size=st.none() | st.integers(1, 999),
    identity=st.none() | texts,
    labels=st.none() | st.lists(texts, max_size=3).map(tuple),
    recipe=st.dictionaries(texts, texts | st.integers() | st.booleans(), max_size=3),
    created_at=st.datetimes(timezones=st.just(UTC)),
)


@given(tasks, st.dictionaries(st.text(min_size=20, max_size=25), texts, max_size=2))
def test_a_value_is_read_as_it_was_told_whatever_stands_beside_it(task: Task, beside: dict[str, str]) -> None:
    document = json.loads(json.dumps(asdict(task), default=datetime.isoformat))

    assert read(Task, {**beside, **document}) == task


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"holds": True}, {"holds": "yes", "checks": []}, {"holds": True, "checks": {}},
     {"holds": True, "checks": [{"name": 1, "ok": True, "detail": ""}]}],
)  # fmt: skip
def test_what_tells_something_else_is_not_read(document: object) -> None:
    with pytest.raises(AnswerUnreadable, match="no verdict"):
        read(Verdict, document)


def test_a_score_of_one_is_a_number_with_a_point() -> None:
    shared = {"task": "t", "sources": [], "set_digest": "", "composition": "vote", "weighting": "none"}

    answer = read(Prediction, {**shared, "labels": [{"label": "cat", "score": 1}]})

    assert (answer.score, type(answer.score)) == (1.0, float)
