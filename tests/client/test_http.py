"""Unreachable services and invalid responses: one clear line, and never the token."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from uuid import UUID

import pytest

from alacarte.api.predictions import LabelScore
from alacarte.client import Client, InvalidResponse, ServiceProblem, ServiceUnreachable
from tests.servers.http_server import serve_http
from tests.servers.processes import find_free_ports

TOKEN = "alc_abcdefghijkl_" + "s" * 43


@contextmanager
def client_of_response(status: int, body: bytes, **headers: str) -> Iterator[Client]:
    """Yield a client of a service that gives this response to every GET request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serve_http(Handler) as port, Client(f"http://127.0.0.1:{port}", TOKEN) as client:
        yield client


def test_an_unreachable_service_is_reported_in_one_line() -> None:
    [port] = find_free_ports(1)
    with Client(f"http://127.0.0.1:{port}/", TOKEN) as client:
        with pytest.raises(ServiceUnreachable) as caught:
            client.get_current_user()

        message = str(caught.value)
        assert message.startswith(f"http://127.0.0.1:{port} cannot be reached: ")
        assert "\n" not in message
        assert "sss" not in f"{message} {client!r} {caught.value.__cause__!r}"
        assert not client.is_ready()


def test_a_silent_service_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, TOKEN, timeout=0.1) as client, pytest.raises(ServiceUnreachable, match="in time"):
            client.get_current_user()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"id": 3}', b"\xff"])
def test_a_body_that_is_no_user_is_an_invalid_response(body: bytes) -> None:
    with client_of_response(200, body) as client, pytest.raises(InvalidResponse):
        client.get_current_user()


def test_an_error_without_a_problem_document_is_a_problem() -> None:
    with client_of_response(502, b"<html>") as client, pytest.raises(ServiceProblem) as caught:
        client.get_current_user()

    assert (caught.value.status, str(caught.value)) == (502, "Bad Gateway (502)")


def test_a_redirect_is_reported_and_not_followed() -> None:
    with (
        client_of_response(308, b"", Location="https://elsewhere/") as client,
        pytest.raises(ServiceProblem, match="the service is at https://elsewhere/"),
    ):
        client.get_current_user()


def test_a_problem_says_when_to_retry() -> None:
    body = json.dumps({"title": "Busy", "detail": "later", "type": "urn:alacarte:problem:busy"}).encode()
    with client_of_response(503, body, Retry_After="2") as client, pytest.raises(ServiceProblem) as caught:
        client.get_current_user()

    assert (caught.value.kind, caught.value.retry_after_s) == ("busy", 2.0)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "/tmp"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a service"):
        Client(url, TOKEN)


@pytest.mark.parametrize("token", ["", " \n", "ça", "a\nb"])
def test_an_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="copy it again"):
        Client("http://127.0.0.1:1", token)


USER = {"id": str(UUID(int=1)), "name": "ann", "role": "owner", "is_group": False, "created_at": "2025-03-01T12:00:00Z",
        "issuer": None, "subject": None, "quota_bytes": None}  # fmt: skip


def test_members_that_a_newer_service_adds_are_ignored() -> None:
    body = json.dumps({**USER, "colour": "blue"}).encode()
    with client_of_response(200, body) as client:
        user = client.get_current_user()

    assert (user.id, user.name, user.created_at) == (UUID(int=1), "ann", datetime(2025, 3, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"holds": True}, {"holds": "yes", "checks": []}, {"holds": True, "checks": {}},
     {"holds": True, "checks": [{"name": 1, "ok": True, "detail": ""}]}],
)  # fmt: skip
def test_another_document_is_an_invalid_response(document: object) -> None:
    with (
        client_of_response(200, json.dumps(document).encode()) as client,
        pytest.raises(InvalidResponse, match="ReceiptVerificationResponse"),
    ):
        client.verify_receipt(UUID(int=1))


def test_an_integer_score_is_parsed_as_a_float() -> None:
    assert type(LabelScore.model_validate_json(b'{"label": "cat", "score": 1}', strict=True).score) is float
