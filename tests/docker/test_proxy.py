"""The deployed proxy: its limits match the service, and a replica that goes away fails no request."""

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.middleware.body_limit import FRAMING_BYTES
from service.settings import ServiceSettings
from tests.docker.files import DOCKER
from tests.docker.replica import FakeReplica, serve_fake_replica
from tests.servers.nginx import NGINX, NO_NGINX, nginx_command, serve_nginx
from tests.servers.processes import find_free_ports, wait_until

pytestmark = pytest.mark.skipif(NGINX is None, reason=NO_NGINX)
TEXT = (DOCKER / "nginx.conf").read_text()
UPLOADS = ("/sources", "/sources/7/samples")


@pytest.fixture
def replica() -> Iterator[FakeReplica]:
    with serve_fake_replica() as one:
        yield one


@pytest.fixture
def replicas(replica: FakeReplica) -> Iterator[list[FakeReplica]]:
    """Two replicas; the first closes every connection without a response."""
    replica.closes_without_response = True
    with serve_fake_replica() as other:
        yield [replica, other]


@pytest.fixture
def balanced_url(replicas: list[FakeReplica], tmp_path: Path) -> Iterator[str]:
    """The URL of a proxy in front of both."""
    with serve_nginx(tmp_path, [one.address for one in replicas]) as (address, _):
        yield f"http://{address}"


@pytest.fixture
def url(replica: FakeReplica, tmp_path: Path) -> Iterator[str]:
    with serve_nginx(tmp_path, [replica.address]) as (address, _):
        yield f"http://{address}"


def default(name: str) -> float:
    value = ServiceSettings.model_fields[name].default
    assert isinstance(value, int | float)
    return value


def seconds_of(directive: str) -> list[int]:
    return [int(number) for number in re.findall(rf"\b{directive} (\d+)s;", TEXT)]


def test_the_configuration_is_accepted_with_and_without_tls(tmp_path: Path) -> None:
    for listen in ("listen.conf", "listen.tls.conf"):
        home = tmp_path / listen
        (home / "tls").mkdir(parents=True)
        write_certificate(home / "tls")
        [port] = find_free_ports(1)  # a test of the configuration listens, too
        lines = (DOCKER / listen).read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")

        tested = subprocess.run([*nginx_command(home, lines, ["127.0.0.1:1"]), "-t"], capture_output=True, check=False)

        assert tested.returncode == 0, tested.stderr


def write_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    now = datetime.now(UTC)
    signed = made.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(signed.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(secret)


@pytest.mark.parametrize(
    ("path", "limit_bytes"),
    [
        ("/predict", default("max_body_bytes")),
        ("/v2/models/flowers/infer", default("max_body_bytes")),
        ("/users", default("max_body_bytes")),
        ("/sources/7/prompt", default("max_prompt_bytes")),
        *((path, default("max_upload_bytes") + FRAMING_BYTES) for path in UPLOADS),
    ],
)
def test_a_body_may_be_as_large_as_the_service_takes_it_and_no_larger(url: str, path: str, limit_bytes: float) -> None:
    """The announced length alone decides: the proxy refuses at once, or waits for the body."""
    refused = response_to_length(url, path, int(limit_bytes) + 1)

    assert refused is not None
    assert refused.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in refused
    assert response_to_length(url, path, int(limit_bytes)) is None


def connect(url: str) -> socket.socket:
    address = httpx.URL(url)
    return socket.create_connection((address.host, address.port or 80), timeout=30)


def response_to_length(url: str, path: str, length: int) -> bytes | None:
    """Return the response to a request of this length before its body, or None if the proxy asks for the body."""
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    with connect(url) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65536)
        return None if answer.startswith(b"HTTP/1.1 100 ") else answer


def test_times_agree_with_the_service() -> None:
    assert seconds_of("client_body_timeout") == [default("read_timeout_s")]
    before, *_ = seconds_of("proxy_read_timeout")
    assert before > default("deadline_s")
    assert seconds_of("proxy_read_timeout")[-1] >= default("upload_timeout_s")
    _, of_replicas = seconds_of("keepalive_timeout")
    assert of_replicas < default("keep_alive_s")


def test_an_upload_reaches_the_replica_while_it_is_still_sent(url: str, replica: FakeReplica) -> None:
    for path in UPLOADS:
        replica.first_bytes.clear()
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: 2000\r\n\r\n"
        with connect(url) as connection:
            connection.sendall(head.encode() + b"a" * 1000)
            assert replica.first_bytes.wait(30)
            connection.sendall(b"b" * 1000)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_replica_never_receives_an_incomplete_predict_request(url: str, replica: FakeReplica) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n"
    with connect(url) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")  # so it was read, and would be passed on by now
        connection.sendall(b"a" * 1000)
        httpx.get(f"{url}/tasks")
    httpx.get(f"{url}/tasks")

    assert replica.requests == [("GET", "/tasks")] * 2


def test_a_request_keeps_its_id_or_gets_one(url: str, replica: FakeReplica) -> None:
    given = httpx.get(f"{url}/tasks", headers={"X-Request-ID": "mine-1"})
    made = httpx.get(f"{url}/tasks")
    hostile = httpx.get(f"{url}/tasks", headers={"X-Request-ID": 'a"b'})

    assert given.headers["x-request-id"] == "mine-1"
    assert re.fullmatch(r"[0-9a-f]{32}", made.headers["x-request-id"])
    assert re.fullmatch(r"[0-9a-f]{32}", hostile.headers["x-request-id"])
    assert replica.headers[0]["x-request-id"] == "mine-1"


@pytest.mark.parametrize(
    "given",
    ["a" * 65, "alc_abcdefghijkl_" + "x" * 40, "id-eyJ" + "h" * 12, "two words", "k\u00e4se"],
    ids=["too long", "a token", "a JWT", "two words", "another letter"],
)
def test_an_id_that_no_replica_takes_is_replaced_and_not_logged(given: str, url: str, tmp_path: Path) -> None:
    answer = httpx.get(f"{url}/tasks", headers=[(b"X-Request-ID", given.encode("latin-1"))])

    made, log = answer.headers["x-request-id"], await_log(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{32}", made)
    assert f'"request_id":"{made}"' in log
    assert given not in log


def await_log(folder: Path) -> str:
    """Return the log of the proxy once it has a line for a request."""
    log = folder / "log"
    wait_until(lambda: '"event":"proxied"' in log.read_text(), "a line of the log")
    return log.read_text()


def test_a_replica_that_is_down_fails_no_request(tmp_path: Path) -> None:
    [nobody] = find_free_ports(1)
    with serve_fake_replica() as alive, serve_nginx(tmp_path, [f"127.0.0.1:{nobody}", alive.address]) as (address, _):
        for method, path in (("GET", "/tasks"), ("POST", "/sources"), ("POST", "/predict"), ("DELETE", "/sources/7")):
            answers = [httpx.request(method, f"http://{address}{path}", content=b"x") for _ in range(4)]
            assert [answer.status_code for answer in answers] == [200] * 4


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/predict"), ("POST", "/v2/models/flowers/infer"), ("DELETE", "/sources/7")]
)
def test_a_prediction_or_deletion_whose_replica_dies_is_sent_to_the_next_replica(
    method: str, path: str, balanced_url: str, replicas: list[FakeReplica]
) -> None:
    answers = [httpx.request(method, f"{balanced_url}{path}", content=b"x") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json() for answer in answers] == [{"by": replicas[1].address}] * 4
    assert replicas[0].requests


@pytest.mark.parametrize("path", ["/sources", "/grants"])
def test_a_request_that_is_not_idempotent_is_never_repeated(
    path: str, balanced_url: str, replicas: list[FakeReplica]
) -> None:
    replicas[1].closes_without_response = True

    answer = httpx.post(f"{balanced_url}{path}", content=b"x")

    assert answer.status_code == 502
    assert len(replicas[0].requests) + len(replicas[1].requests) == 1


def test_errors_of_the_proxy_are_problem_documents(tmp_path: Path) -> None:
    [nobody] = find_free_ports(1)
    with serve_nginx(tmp_path, [f"127.0.0.1:{nobody}"]) as (address, _):
        answer = httpx.get(f"http://{address}/tasks", headers={"X-Request-ID": "mine-2"})

    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "mine-2"
    assert answer.json() == {
        "type": "urn:alacarte:problem:no-replica",
        "title": "No replica",
        "status": 502,
        "detail": "no replica answers: try again in a moment",
        "request_id": "mine-2",
    }


def test_an_error_of_a_replica_is_passed_on_unchanged(url: str, replica: FakeReplica) -> None:
    for status in (404, 413, 429, 502, 503):
        replica.status = status
        assert httpx.get(f"{url}/tasks").json() == {"by": replica.address}


def test_metrics_are_not_public(url: str, replica: FakeReplica) -> None:
    assert httpx.get(f"{url}/metrics").status_code == 404
    assert replica.requests == []


def test_the_version_of_the_proxy_is_hidden(url: str) -> None:
    assert httpx.get(f"{url}/tasks").headers["server"] == "nginx"
    assert httpx.get(f"{url}/metrics").headers["server"] == "nginx"


def test_an_address_has_a_limit_of_concurrent_requests(url: str) -> None:
    limits = re.findall(r"limit_conn addresses (\d+);", TEXT)
    assert limits == ["128"]
    with ExitStack() as stack:
        for _ in range(int(limits[0])):
            connection = stack.enter_context(connect(url))
            connection.sendall(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n")
        wait_until(lambda: httpx.get(f"{url}/tasks").status_code == 429, "the limit of an address")
    wait_until(lambda: httpx.get(f"{url}/tasks").status_code == 200, "the end of the others")


def test_no_line_of_the_log_holds_a_token_or_a_path(url: str, tmp_path: Path) -> None:
    httpx.get(f"{url}/sources/of-somebody?q=else", headers={"Authorization": "Bearer alc_secret"})

    assert not re.search("alc_secret|of-somebody|else", await_log(tmp_path))
