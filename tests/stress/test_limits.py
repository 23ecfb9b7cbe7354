"""Memory, queues and connections have limits: what runs long does not grow, and whoever is slow or many hurts nobody.

The short forms belong to the whole suite; `make stress` runs the full ones.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from registry.access.caller import OPERATOR
from registry.access.grants import grant
from tests.e2e.proxy import NO_NGINX, find_nginx, proxy_process
from tests.servers.processes import until
from tests.service.deployment import TASK, picture
from tests.stress.limits.half_sent import open_connections
from tests.stress.limits.load import Flood, client_of, predict_in_turn, predict_often
from tests.stress.limits.memory import KIB, MIB, growth_bytes, told, worst_growth_bytes
from tests.stress.limits.server import LEAKING, ServerProcess, start_server

OTHER = "stranger"  # somebody who does no harm, and may use what the others use
PROMPTS = 24  # in turn, where the budget holds about ten
BUDGET_BYTES = 2 * MIB
FORGET_EVERY = 20  # cycles
EACH_BYTES = 64 * KIB  # of memory that a connection may cost which has sent half of a request
LEAKS = 150  # predictions, of which each leaves something behind

_seeds = count(100)


@dataclass(frozen=True)
class Scale:
    """How much of everything, and how long a slow client is borne with."""

    predictions: int
    cycles: int
    growth_bytes: int  # that is no leak: what allocators keep
    open_connections: int
    readers: int
    patience_s: float


SHORT = Scale(predictions=300, cycles=100, growth_bytes=6 * MIB, open_connections=300, readers=10, patience_s=1.5)
FULL = Scale(
    predictions=20_000, cycles=2_100, growth_bytes=8 * MIB, open_connections=10_000, readers=200, patience_s=30.0
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SHORT, id="short", marks=pytest.mark.e2e),
        pytest.param(FULL, id="full", marks=pytest.mark.stress),
    ],
)
def scale(request: pytest.FixtureRequest) -> Scale:
    """How much."""
    assert isinstance(request.param, Scale)
    return request.param


@pytest.fixture(scope="module")
def server(scale: Scale, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service with a short queue, little room for prompts, and little patience."""
    with start_server(
        tmp_path_factory.mktemp("limits"),
        sqlite_template,
        prompt_cache_bytes=BUDGET_BYTES,
        max_batch=4,
        max_waiting=8,
        max_connections=scale.open_connections + 1000,
        head_timeout_s=scale.patience_s,
        read_timeout_s=scale.patience_s,
        send_timeout_s=scale.patience_s,
        rate_per_s=0,  # another limit would hide those that are looked at
    ) as found:
        with found.world.registry.database.writing() as session:
            grant(session, OPERATOR, found.world.users[OTHER], found.world.source, "use")
        yield found


@pytest.fixture(scope="module")
def proxy_port(server: ServerProcess, scale: Scale, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The deployed proxy in front of the service; in the short form with little patience, too."""
    if find_nginx() is None:
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


def ask(server: ServerProcess, who: str = OTHER) -> int:
    """The status of an ordinary question."""
    with client_of(server, who) as client:
        return client.post("/predict", files={"image": picture()}, data={"task": TASK}).status_code


def test_memory_does_not_grow_with_predictions(server: ServerProcess, scale: Scale) -> None:
    predict_often(server, scale.predictions // 10)

    samples = predict_often(server, scale.predictions)

    sys.stdout.write(f"\n{scale.predictions} predictions, {told(samples)}\n")
    assert worst_growth_bytes(samples) < scale.growth_bytes


def test_memory_does_not_grow_with_prompts_that_come_and_go(server: ServerProcess, scale: Scale) -> None:
    world = server.world
    sources = []
    for _ in range(PROMPTS):
        sources.append(str(made := world.add_source()))
        world.publish(made, seed=next(_seeds))
    predict_in_turn(server, sources, 2 * PROMPTS)
    misses = server.measured("prompt_cache_misses_total")
    samples = []

    for _ in range(0, scale.cycles, FORGET_EVERY):
        samples += predict_in_turn(server, sources, FORGET_EVERY, samples=4)
        assert world.ask("admin", "DELETE", f"/sources/{sources.pop(0)}").status_code == 202
        sources.append(str(made := world.add_source()))
        world.publish(made, seed=next(_seeds))
        sources.append(sources.pop(0))  # whoever was asked last is asked last again

    loads = server.measured("prompt_cache_misses_total") - misses
    sys.stdout.write(f"\n{loads:.0f} loads, {told(samples)}\n")
    assert loads >= scale.cycles * 0.9
    assert server.measured("cached_prompt_bytes") <= BUDGET_BYTES
    assert worst_growth_bytes(samples) < scale.growth_bytes


@pytest.mark.stress
def test_whoever_looks_for_leaks_finds_one(sqlite_template: Path, tmp_path: Path) -> None:
    with start_server(tmp_path, sqlite_template, LEAKING) as leaking:
        predict_often(leaking, LEAKS // 10)

        samples = predict_often(leaking, LEAKS)

    assert worst_growth_bytes(samples) > SHORT.growth_bytes


def test_a_peak_is_no_leak_and_a_slope_is() -> None:
    flat = [100 + number % 3 for number in range(100)]

    assert abs(growth_bytes(flat)) <= 2
    assert abs(growth_bytes([*flat[:90], 10_000, *flat[91:]])) <= 2
    assert growth_bytes([number + number % 7 for number in range(100)]) == pytest.approx(60, abs=5)


@pytest.mark.e2e
def test_of_a_flood_each_is_answered_and_another_user_gets_through(server: ServerProcess) -> None:
    flood = Flood(server, "user", threads=24, pictures=6)

    with flood.under_way():
        others = []
        for _ in range(5):
            others.append(ask(server))
            flood.await_more()

    sys.stdout.write(f"\nflood: {dict(flood.told)}\n")
    assert others == [200] * 5
    assert set(flood.told) == {"200", "503 retry"}
    assert ask(server, "user") == 200
    assert (server.measured("waiting_pictures"), server.measured("active_pictures")) == (0, 0)


HALVES: dict[str, tuple[str, str, set[int]]] = {
    "silence": ("", "", {0}),
    "heads": ("POST /predict HTTP/1.1\r\nHost: x\r\nX-A: ", "", {408}),
    "bodies": ("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json", '{"images": [', {408}),
    "strangers' bodies": ("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json", "{", {401}),
    "uploads": ("POST /sources?task=animals&name=x HTTP/1.1\r\nContent-Type: application/zip", "PK", {408, 503}),
}


def half(server: ServerProcess, kind: str) -> bytes:
    """The half of a request."""
    head, body, _ = HALVES[kind]
    if not body:
        return head.encode()
    who = "owner" if kind == "uploads" else "user"
    token = "" if kind.startswith("strangers") else f"\r\nAuthorization: Bearer {server.world.tokens[who]}"
    return f"{head}{token}\r\nContent-Length: 1000\r\n\r\n{body}".encode()


@pytest.mark.parametrize("kind", HALVES)
def test_half_sent_requests_are_ended_and_others_are_served_meanwhile(
    server: ServerProcess, scale: Scale, kind: str
) -> None:
    assert ask(server) == 200
    before, sockets = server.memory, server.sockets

    with open_connections(server.port, scale.open_connections, half(server, kind)) as half_sent:
        opened = len(half_sent.wires)
        assert ask(server) == 200
        during = server.memory
        held = server.sockets
        half_sent.await_end()

    grown_bytes = during.rss_bytes - before.rss_bytes
    sys.stdout.write(f"\n{opened} {kind}, {held} held, {grown_bytes / opened / KIB:.1f} KiB each: {half_sent.told}\n")
    assert set(half_sent.told) <= HALVES[kind][2]
    assert half_sent.told.total() == opened == scale.open_connections
    assert grown_bytes < opened * EACH_BYTES
    assert ask(server) == 200
    until(lambda: server.sockets <= sockets + 10, "the end of every connection", wait_s=60)


@pytest.mark.parametrize("kind", ["heads", "bodies"])
def test_half_sent_requests_end_at_the_proxy(server: ServerProcess, scale: Scale, proxy_port: int, kind: str) -> None:
    sockets = server.sockets
    through = ServerProcess(server.world, server.part, proxy_port)

    with open_connections(proxy_port, scale.open_connections, half(server, kind)) as half_sent:
        opened = len(half_sent.wires)
        assert ask_at(through) == 200
        held = server.sockets
        half_sent.await_end()

    sys.stdout.write(f"\n{opened} {kind} at the proxy: {half_sent.told}\n")
    assert set(half_sent.told) <= {0, 408}
    assert half_sent.told.total() == opened == scale.open_connections
    assert held < sockets + 50  # a slow sender costs a replica nothing
    assert ask_at(through) == 200


def ask_at(server: ServerProcess) -> int:
    """The status of an ordinary question at another port than the service's own."""
    with client_of(server, OTHER) as client:
        address = f"http://127.0.0.1:{server.port}/predict"
        return client.post(address, files={"image": picture()}, data={"task": TASK}).status_code


def test_who_reads_nothing_is_let_go_and_others_are_served_meanwhile(server: ServerProcess, scale: Scale) -> None:
    headers = f"Host: x\r\nAuthorization: Bearer {server.world.tokens['user']}"
    sent = f"GET /openapi.json HTTP/1.1\r\n{headers}\r\n\r\n".encode() * 16  # a quarter of a megabyte each
    assert server.world.ask("user", "GET", "/openapi.json").status_code == 200  # it is made for the first who asks
    before, sockets = server.memory, server.sockets

    with open_connections(server.port, scale.readers, sent, receive_bytes=4096) as readers:
        opened = len(readers.wires)
        assert ask(server) == 200
        during = server.memory
        readers.await_end_unread()

    grown_bytes = during.rss_bytes - before.rss_bytes
    sys.stdout.write(f"\n{opened} who read nothing, {grown_bytes / opened / KIB:.1f} KiB each\n")
    assert readers.told.total() == opened == scale.readers
    assert grown_bytes < opened * MIB
    assert ask(server) == 200
    until(lambda: server.sockets <= sockets + 10, "the end of every connection", wait_s=60)
