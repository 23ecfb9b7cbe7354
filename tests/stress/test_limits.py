"""Memory, queues and connections are bounded: long runs do not grow, and slow or many clients do not hurt others.

`make e2e` runs the short forms, `make stress` the full ones.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from tests.e2e.process import proxy_process
from tests.servers.nginx import NGINX, NO_NGINX
from tests.servers.processes import wait_until
from tests.service.deployment import TASK, picture
from tests.stress.limits.half_sent import open_connections
from tests.stress.limits.load import client_of, flood, predict_in_turn, predict_often
from tests.stress.limits.memory import KIB, MIB, growth_bytes, summary, worst_growth_bytes
from tests.stress.limits.server import LEAKING, ServerProcess, start_server

OTHER = "stranger"  # a well-behaved user with the same rights
PROMPTS = 24  # used in turn; the budget holds about ten
BUDGET_BYTES = 2 * MIB
FORGET_EVERY = 20  # cycles
EACH_BYTES = 64 * KIB  # memory per half-sent request
LEAKS = 150  # predictions, each of which leaks

_seeds = count(100)


@dataclass(frozen=True)
class Scale:
    """The size of a run, and the timeout for slow clients."""

    predictions: int
    cycles: int
    growth_bytes: int  # tolerated, because allocators keep some memory
    open_connections: int
    readers: int
    timeout_s: float


SHORT = Scale(predictions=300, cycles=100, growth_bytes=6 * MIB, open_connections=300, readers=10, timeout_s=1.5)
FULL = Scale(predictions=20_000, cycles=2_100, growth_bytes=8 * MIB, open_connections=10_000, readers=200, timeout_s=30)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SHORT, id="short", marks=pytest.mark.e2e),
        pytest.param(FULL, id="full", marks=pytest.mark.stress),
    ],
)
def scale(request: pytest.FixtureRequest) -> Scale:
    assert isinstance(request.param, Scale)
    return request.param


@pytest.fixture(scope="module")
def server(scale: Scale, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service with a short queue, a small prompt cache and short timeouts."""
    with start_server(
        tmp_path_factory.mktemp("limits"),
        sqlite_template,
        prompt_cache_bytes=BUDGET_BYTES,
        max_batch=4,
        max_waiting=8,
        max_connections=scale.open_connections + 1000,
        head_timeout_s=scale.timeout_s,
        read_timeout_s=scale.timeout_s,
        send_timeout_s=scale.timeout_s,
        rate_per_s=0,  # the rate limit would hide the limits under test
    ) as server:
        with server.deployment.registry.database.write_transaction() as session:
            grant_right(session, OPERATOR, server.deployment.users[OTHER], server.deployment.source, "use")
        yield server


@pytest.fixture(scope="module")
def proxy_port(server: ServerProcess, scale: Scale, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The deployed proxy in front of the service; in the short form with short timeouts too."""
    if NGINX is None:
        pytest.skip(NO_NGINX)
    folder = tmp_path_factory.mktemp("proxied")
    part, url = proxy_process(folder, [f"127.0.0.1:{server.port}"])
    if scale is SHORT:
        conf = folder / "proxy" / "nginx.conf"
        text = conf.read_text()
        for setting in ("client_header_timeout 10s", "client_body_timeout 30s"):
            assert setting in text
            text = text.replace(setting, setting.split()[0] + " 2s")
        conf.write_text(text)
    try:
        part.start()
        yield int(url.rpartition(":")[2])
    finally:
        part.kill()


def predict_status(server: ServerProcess, who: str = OTHER) -> int:
    with client_of(server, who) as client:
        return client.post("/predict", files={"image": picture()}, data={"task": TASK}).status_code


def published_source(server: ServerProcess) -> str:
    """Add a source with a prompt of its own."""
    source = server.deployment.add_source()
    server.deployment.publish(source, seed=next(_seeds))
    return str(source)


def test_memory_does_not_grow_with_predictions(server: ServerProcess, scale: Scale) -> None:
    predict_often(server, scale.predictions // 10)

    samples = predict_often(server, scale.predictions)

    sys.stdout.write(f"\n{scale.predictions} predictions, {summary(samples)}\n")
    assert worst_growth_bytes(samples) < scale.growth_bytes


def test_memory_does_not_grow_with_loaded_and_evicted_prompts(server: ServerProcess, scale: Scale) -> None:
    sources = [published_source(server) for _ in range(PROMPTS)]
    predict_in_turn(server, sources, 2 * PROMPTS)
    misses = server.metric("prompt_cache_misses_total")
    samples = []

    for _ in range(0, scale.cycles, FORGET_EVERY):
        samples += predict_in_turn(server, sources, FORGET_EVERY, samples=4)
        assert server.deployment.request("admin", "DELETE", f"/sources/{sources.pop(0)}").status_code == 202
        sources.append(published_source(server))
        sources.append(sources.pop(0))  # keep the least recently used order

    loads = server.metric("prompt_cache_misses_total") - misses
    sys.stdout.write(f"\n{loads:.0f} loads, {summary(samples)}\n")
    assert loads >= scale.cycles * 0.9
    assert server.metric("cached_prompt_bytes") <= BUDGET_BYTES
    assert worst_growth_bytes(samples) < scale.growth_bytes


@pytest.mark.stress
def test_a_leak_is_found(sqlite_template: Path, tmp_path: Path) -> None:
    with start_server(tmp_path, sqlite_template, LEAKING) as leaking:
        predict_often(leaking, LEAKS // 10)

        samples = predict_often(leaking, LEAKS)

    assert worst_growth_bytes(samples) > SHORT.growth_bytes


def test_a_slope_is_growth_and_a_peak_is_not() -> None:
    flat = [100 + number % 3 for number in range(100)]

    assert abs(growth_bytes(flat)) <= 2
    assert abs(growth_bytes([*flat[:90], 10_000, *flat[91:]])) <= 2
    assert growth_bytes([number + number % 7 for number in range(100)]) == pytest.approx(60, abs=5)


@pytest.mark.e2e
def test_every_request_of_a_flood_is_answered_and_another_user_gets_through(server: ServerProcess) -> None:
    others = []

    with flood(server, "user", threads=24, pictures=6) as outcomes:
        for _ in range(5):
            others.append(predict_status(server))
            outcomes.await_calls(24)

    sys.stdout.write(f"\nflood: {dict(Counter(outcomes.calls))}\n")
    assert others == [200] * 5
    assert set(outcomes.calls) == {"200", "503 retry"}
    assert predict_status(server, "user") == 200
    assert (server.metric("waiting_pictures"), server.metric("active_pictures")) == (0, 0)


HALF_REQUESTS: dict[str, tuple[str, str, set[int]]] = {
    "silence": ("", "", {0}),
    "heads": ("POST /predict HTTP/1.1\r\nHost: x\r\nX-A: ", "", {408}),
    "bodies": ("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json", '{"images": [', {408}),
    "strangers' bodies": ("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json", "{", {401}),
    "uploads": ("POST /sources?task=animals&name=x HTTP/1.1\r\nContent-Type: application/zip", "PK", {408, 503}),
}


def half_request(server: ServerProcess, kind: str) -> bytes:
    head, body, _ = HALF_REQUESTS[kind]
    if not body:
        return head.encode()
    who = "owner" if kind == "uploads" else "user"
    token = "" if kind.startswith("strangers") else f"\r\nAuthorization: Bearer {server.deployment.tokens[who]}"
    return f"{head}{token}\r\nContent-Length: 1000\r\n\r\n{body}".encode()


@pytest.mark.parametrize("kind", HALF_REQUESTS)
def test_half_sent_requests_are_ended_and_others_are_served_meanwhile(
    server: ServerProcess, scale: Scale, kind: str
) -> None:
    assert predict_status(server) == 200
    before, sockets = server.memory, server.sockets

    with open_connections(server.port, scale.open_connections, half_request(server, kind)) as half_sent:
        opened = len(half_sent.connections)
        assert predict_status(server) == 200
        during, open_sockets = server.memory, server.sockets
        half_sent.await_end()

    grown_bytes = during.rss_bytes - before.rss_bytes
    sys.stdout.write(
        f"\n{opened} {kind}, {open_sockets} sockets, {grown_bytes / opened / KIB:.1f} KiB each: {half_sent.statuses}\n"
    )
    assert set(half_sent.statuses) <= HALF_REQUESTS[kind][2]
    assert half_sent.statuses.total() == opened == scale.open_connections
    assert grown_bytes < opened * EACH_BYTES
    assert predict_status(server) == 200
    wait_until(lambda: server.sockets <= sockets + 10, "the end of every connection", wait_s=60)


@pytest.mark.parametrize("kind", ["heads", "bodies"])
def test_half_sent_requests_end_at_the_proxy(server: ServerProcess, scale: Scale, proxy_port: int, kind: str) -> None:
    sockets = server.sockets
    through = replace(server, port=proxy_port)

    with open_connections(proxy_port, scale.open_connections, half_request(server, kind)) as half_sent:
        opened = len(half_sent.connections)
        assert predict_status(through) == 200
        open_sockets = server.sockets
        half_sent.await_end()

    sys.stdout.write(f"\n{opened} {kind} at the proxy: {half_sent.statuses}\n")
    assert set(half_sent.statuses) <= {0, 408}
    assert half_sent.statuses.total() == opened == scale.open_connections
    assert open_sockets < sockets + 50  # a slow sender does not reach a replica
    assert predict_status(through) == 200


def test_clients_that_read_nothing_are_disconnected_and_others_are_served(server: ServerProcess, scale: Scale) -> None:
    headers = f"Host: x\r\nAuthorization: Bearer {server.deployment.tokens['user']}"
    sent = f"GET /openapi.json HTTP/1.1\r\n{headers}\r\n\r\n".encode() * 16  # a quarter of a megabyte each
    assert server.deployment.request("user", "GET", "/openapi.json").status_code == 200  # the first request builds it
    before, sockets = server.memory, server.sockets

    with open_connections(server.port, scale.readers, sent, receive_bytes=4096) as readers:
        opened = len(readers.connections)
        assert predict_status(server) == 200
        during = server.memory
        readers.await_end_unread()

    grown_bytes = during.rss_bytes - before.rss_bytes
    sys.stdout.write(f"\n{opened} that read nothing, {grown_bytes / opened / KIB:.1f} KiB each\n")
    assert readers.statuses.total() == opened == scale.readers
    assert grown_bytes < opened * MIB
    assert predict_status(server) == 200
    wait_until(lambda: server.sockets <= sockets + 10, "the end of every connection", wait_s=60)
