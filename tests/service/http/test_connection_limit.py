"""Connections of slow clients, and those beyond the limit, are closed; others are not affected."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from select import select

import pytest

from service.http.connection_limit import MAX_HEAD_BYTES, ConnectionLimit
from tests.servers.processes import wait_until
from tests.service.http.limited_server import (
    DELAYED,
    GET,
    LARGE,
    LARGE_BYTES,
    LimitedServer,
    read_all,
    read_response,
    run_limited_server,
    status_of,
)

SHORT = 0.2

StartServer = Callable[..., LimitedServer]


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(run_limited_server(**settings))


def connect_after(server: LimitedServer, request: bytes) -> socket.socket:
    """Open a connection, and get the response to the request, if there is one."""
    sock = server.connect(request)
    if request:
        assert status_of(read_response(sock)) == 200
    return sock


def is_disconnected(sock: socket.socket, data: bytes) -> bool:
    """Send the data, and return whether the server has closed the connection."""
    try:
        sock.send(data)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return False


def test_a_request_in_pieces_is_answered(start_server: StartServer) -> None:
    sock = start_server().connect()
    for index in range(len(GET)):
        sock.sendall(GET[index : index + 1])

    assert status_of(read_response(sock)) == 200


@pytest.mark.parametrize("begun", [GET[:5], GET[:-2], b"POST /x HTTP/1.1\r\nA: b\r\n", b"\r\n"])
def test_a_head_that_does_not_end_times_out(start_server: StartServer, begun: bytes) -> None:
    server = start_server(head_timeout_s=SHORT)

    assert status_of(read_all(server.connect(begun))) == 408
    wait_until(lambda: server.connections == 0)


def test_a_silent_connection_is_closed_without_a_response(start_server: StartServer) -> None:
    assert read_all(start_server(head_timeout_s=SHORT).connect()) == b""


@pytest.mark.parametrize("drop", [b"A: b\r\n", b"\r\n"])
@pytest.mark.parametrize("before", [b"", GET])
def test_a_head_that_trickles_times_out(start_server: StartServer, before: bytes, drop: bytes) -> None:
    server = start_server(head_timeout_s=SHORT)
    sock = connect_after(server, before)
    sock.sendall(b"" if drop == b"\r\n" else b"GET / HTTP/1.1\r\n")

    wait_until(lambda: is_disconnected(sock, drop))
    wait_until(lambda: server.connections == 0)


def test_the_head_timeout_does_not_apply_to_the_body(start_server: StartServer) -> None:
    server = start_server(head_timeout_s=SHORT)
    sock = server.connect(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n12")
    wait_until(lambda: server.requests == 1)
    late = server.connect(GET[:5])

    assert status_of(read_all(late)) == 408  # so the head timeout has passed
    sock.sendall(b"34")
    assert status_of(read_response(sock)) == 200
    assert server.bodies == [b"1234"]


def test_a_half_sent_request_does_not_end_the_one_before(start_server: StartServer) -> None:
    server = start_server(head_timeout_s=SHORT)
    sock = server.connect(DELAYED + GET[:9])
    wait_until(lambda: server.requests == 1)

    assert status_of(read_all(server.connect(GET[:5]))) == 408
    server.may_answer.set()
    assert read_all(sock).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize("before", [b"", GET])
@pytest.mark.parametrize(
    "head",
    [b"GET /" + b"x" * 2**18, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 2**16, b"GET / HTTP/1.1\r\nA: " + b"b" * 2**18],
    ids=["address", "headers", "header"],
)
def test_a_head_without_an_end_is_refused_before_it_fills_the_memory(
    start_server: StartServer, before: bytes, head: bytes
) -> None:
    server = start_server(head_timeout_s=3600)
    sock = connect_after(server, before)
    sent = 0

    def is_refused() -> bool:
        nonlocal sent
        readable, writable, _ = select([sock], [sock], [], 10)
        if writable and not readable and sent < len(head):
            sent += sock.send(head[sent : sent + 8192])
        return bool(readable)

    wait_until(is_refused)

    assert status_of(read_all(sock)) in (431, 0)  # a reset may overtake the response
    assert sent > MAX_HEAD_BYTES // 2
    wait_until(lambda: server.connections == 0)


def test_a_head_just_below_the_limit_is_read(start_server: StartServer) -> None:
    filler = b"A: " + b"b" * (MAX_HEAD_BYTES - len(GET) - 5) + b"\r\n"

    assert status_of(start_server().connect(GET[:-2] + filler + b"\r\n").recv(4096)) == 200


def test_the_head_limit_applies_to_each_request(start_server: StartServer) -> None:
    sock = start_server().connect()
    request = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000

    for _ in range(5):
        sock.sendall(request)
        assert status_of(read_response(sock)) == 200


def test_a_client_that_does_not_read_its_response_is_disconnected(start_server: StartServer) -> None:
    server = start_server(send_timeout_s=SHORT, keep_alive_s=3600)
    server.connect(LARGE)
    wait_until(lambda: server.connections == 1)

    wait_until(lambda: server.connections == 0)
    assert server.requests == 0


def test_a_disconnect_ends_the_first_of_pipelined_requests(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    sock = server.connect(DELAYED + GET)
    wait_until(lambda: server.requests == 1 and len(server.bodies) == 1)

    sock.close()
    wait_until(lambda: server.connections == 0)
    server.may_answer.set()

    wait_until(lambda: server.requests == 0)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert server.bodies == [b""]  # the second was not begun


def test_a_client_that_sends_requests_and_reads_nothing_is_disconnected(start_server: StartServer) -> None:
    server = start_server(send_timeout_s=SHORT, keep_alive_s=3600)
    sock = server.connect()
    sock.setblocking(False)

    wait_until(lambda: is_disconnected(sock, LARGE))
    wait_until(lambda: server.connections == 0 and server.requests == 0)


@pytest.mark.e2e  # a busy machine may stall the reader
def test_a_slow_reader_gets_the_whole_response(start_server: StartServer) -> None:
    server = start_server(send_timeout_s=SHORT, head_timeout_s=SHORT)
    sock = server.connect(LARGE)
    late = server.connect(GET[:5])
    taken = 0
    while taken < LARGE_BYTES:  # in steps that together last longer than the send timeout
        taken += len(sock.recv(2**16))
        select([late], [], [], SHORT / 200)

    assert status_of(read_all(late)) == 408


def test_at_the_limit_the_longest_idle_connection_is_closed(start_server: StartServer) -> None:
    server = start_server(max_connections=3)
    busy = server.connect_and_wait(DELAYED)
    wait_until(lambda: server.requests == 1)
    first, second = server.connect_and_wait(GET[:5]), server.connect_and_wait()

    third = server.connect(GET)

    assert status_of(read_response(third)) == 200
    assert read_all(first) == b""
    second.sendall(GET)
    assert status_of(read_response(second)) == 200
    server.may_answer.set()
    assert status_of(read_response(busy)) == 200


def test_a_connection_beyond_the_limit_gets_503_if_none_is_idle(start_server: StartServer) -> None:
    server = start_server(max_connections=2)
    busy = [server.connect_and_wait(DELAYED) for _ in range(2)]
    wait_until(lambda: server.requests == 2)

    refused = read_all(server.connect())

    assert status_of(refused) == 503
    assert b"retry-after: 2\r\n" in refused
    server.may_answer.set()
    assert [status_of(read_response(sock)) for sock in busy] == [200, 200]
    wait_until(lambda: server.connections == 2)
    assert status_of(read_response(server.connect(GET))) == 200


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_an_upgrade_to_another_protocol_is_ignored(start_server: StartServer, protocol: bytes) -> None:
    server = start_server()
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n"
    head = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n" + upgrade + b"\r\n"
    sock = server.connect(head + b"12")
    wait_until(lambda: server.requests == 1)
    sock.sendall(b"34")

    assert status_of(read_response(sock)) == 200
    sock.sendall(head + b"5678" + GET)
    assert status_of(read_response(sock)) == 200
    wait_until(lambda: len(server.bodies) == 3)
    assert server.bodies == [b"1234", b"5678", b""]


def test_connect_is_refused(start_server: StartServer) -> None:
    assert status_of(read_all(start_server().connect(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"))) == 400


class FakeConnection:
    """An idle connection."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_the_limit_forgets_connections_that_are_busy_or_closed() -> None:
    limit = ConnectionLimit(2)
    connections = [FakeConnection() for _ in range(4)]

    assert [limit.admit(connection, number) for number, connection in enumerate(connections[:2], 1)] == [True, True]
    limit.mark_busy(connections[0])
    limit.mark_busy(connections[0])
    assert limit.admit(connections[2], 3)
    assert [connection.is_closed for connection in connections] == [False, True, False, False]
    limit.mark_busy(connections[2])
    assert not limit.admit(connections[3], 3)
    limit.mark_idle(connections[0])
    assert len(limit) == 1
