"""Clients that are slow, silent, or send heads without an end: their connections end, and nobody else's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from select import select

import pytest

from service.http.connection_limit import MAX_HEAD_BYTES, ConnectionLimit
from tests.service.server_fixture import GET, HELD, LARGE, LARGE_BYTES, House, all_of, answer_on, open_house, status_of
from tests.service.waiting import wait_for

SHORT = 0.2

Open = Callable[..., House]


@pytest.fixture
def house() -> Iterator[Open]:
    """Opens houses by their settings."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(open_house(**settings))


def test_a_request_in_pieces_is_answered(house: Open) -> None:
    wire = house().connect()
    for place in range(len(GET)):
        wire.sendall(GET[place : place + 1])

    assert status_of(answer_on(wire)) == 200


@pytest.mark.parametrize("begun", [GET[:5], GET[:-2], b"POST /x HTTP/1.1\r\nA: b\r\n", b"\r\n"])
def test_a_head_that_does_not_end_is_given_up(house: Open, begun: bytes) -> None:
    opened = house(head_timeout_s=SHORT)

    assert status_of(all_of(opened.connect(begun))) == 408
    wait_for(lambda: opened.connections == 0)


def test_whoever_says_nothing_is_told_nothing(house: Open) -> None:
    assert all_of(house(head_timeout_s=SHORT).connect()) == b""


@pytest.mark.parametrize("drop", [b"A: b\r\n", b"\r\n"])
@pytest.mark.parametrize("before", [b"", GET])
def test_a_head_that_comes_in_drops_gets_no_more_time(house: Open, before: bytes, drop: bytes) -> None:
    opened = house(head_timeout_s=SHORT)
    wire = opened.connect(before)
    if before:
        assert status_of(answer_on(wire)) == 200
    wire.sendall(b"" if drop == b"\r\n" else b"GET / HTTP/1.1\r\n")

    def is_ended() -> bool:
        try:
            wire.sendall(drop)
        except ConnectionError:
            return True
        return False

    wait_for(is_ended)
    wait_for(lambda: opened.connections == 0)


def test_a_body_has_its_own_time(house: Open) -> None:
    opened = house(head_timeout_s=SHORT)
    wire = opened.connect(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n12")
    wait_for(lambda: opened.asking == 1)
    late = opened.connect(GET[:5])

    assert status_of(all_of(late)) == 408  # so much time has passed
    wire.sendall(b"34")
    assert status_of(answer_on(wire)) == 200
    assert opened.told == [b"1234"]


def test_an_answer_that_takes_long_is_not_given_up_for_what_follows_it(house: Open) -> None:
    opened = house(head_timeout_s=SHORT)
    wire = opened.connect(HELD + GET[:9])
    wait_for(lambda: opened.asking == 1)

    assert status_of(all_of(opened.connect(GET[:5]))) == 408
    opened.has_leave.set()
    assert all_of(wire).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize("before", [b"", GET])
@pytest.mark.parametrize(
    "head",
    [b"GET /" + b"x" * 2**18, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 2**16, b"GET / HTTP/1.1\r\nA: " + b"b" * 2**18],
    ids=["address", "headers", "header"],
)
def test_a_head_without_an_end_is_refused_before_it_fills_the_memory(house: Open, before: bytes, head: bytes) -> None:
    opened = house(head_timeout_s=3600)
    wire = opened.connect(before)
    if before:
        assert status_of(answer_on(wire)) == 200
    sent = 0

    def is_refused() -> bool:
        nonlocal sent
        readable, writable, _ = select([wire], [wire], [], 10)
        if writable and not readable and sent < len(head):
            sent += wire.send(head[sent : sent + 8192])
        return bool(readable)

    wait_for(is_refused)

    assert status_of(all_of(wire)) in (431, 0)  # a reset may overtake the answer
    assert sent > MAX_HEAD_BYTES // 2
    wait_for(lambda: opened.connections == 0)


def test_a_head_just_below_the_limit_is_read(house: Open) -> None:
    filler = b"A: " + b"b" * (MAX_HEAD_BYTES - len(GET) - 5) + b"\r\n"

    assert status_of(house().connect(GET[:-2] + filler + b"\r\n").recv(4096)) == 200


def test_requests_one_after_another_are_no_long_head(house: Open) -> None:
    wire = house().connect()
    request = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000

    for _ in range(5):
        wire.sendall(request)
        assert status_of(answer_on(wire)) == 200


def test_who_does_not_read_the_answer_is_let_go(house: Open) -> None:
    opened = house(send_timeout_s=SHORT, keep_alive_s=3600)
    opened.connect(LARGE)
    wait_for(lambda: opened.connections == 1)

    wait_for(lambda: opened.connections == 0)
    assert opened.asking == 0


def test_who_leaves_is_missed_by_the_first_of_several_requests(house: Open, caplog: pytest.LogCaptureFixture) -> None:
    opened = house()
    wire = opened.connect(HELD + GET)
    wait_for(lambda: opened.asking == 1 and len(opened.told) == 1)

    wire.close()
    wait_for(lambda: opened.connections == 0)
    opened.has_leave.set()

    wait_for(lambda: opened.asking == 0)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert opened.told == [b""]  # the other was not begun


def test_who_asks_on_and_reads_nothing_is_let_go(house: Open) -> None:
    opened = house(send_timeout_s=SHORT, keep_alive_s=3600)
    wire = opened.connect()
    wire.setblocking(False)

    def is_ended() -> bool:
        try:
            wire.send(LARGE)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    wait_for(is_ended)
    wait_for(lambda: opened.connections == 0 and opened.asking == 0)


@pytest.mark.e2e  # a reader that the machine holds up for long is no slow reader
def test_who_reads_slowly_gets_all_of_the_answer(house: Open) -> None:
    opened = house(send_timeout_s=SHORT, head_timeout_s=SHORT)
    wire = opened.connect(LARGE)
    late = opened.connect(GET[:5])
    taken = 0
    while taken < LARGE_BYTES:  # in looks that last longer, all together, than anybody may take nothing
        taken += len(wire.recv(2**16))
        select([late], [], [], SHORT / 200)

    assert status_of(all_of(late)) == 408


def test_in_a_full_house_whoever_waited_longest_is_let_go(house: Open) -> None:
    opened = house(max_connections=3)
    asking = opened.connect_and_wait(HELD)
    wait_for(lambda: opened.asking == 1)
    first, second = opened.connect_and_wait(GET[:5]), opened.connect_and_wait()

    third = opened.connect(GET)

    assert status_of(answer_on(third)) == 200
    assert all_of(first) == b""
    second.sendall(GET)
    assert status_of(answer_on(second)) == 200
    opened.has_leave.set()
    assert status_of(answer_on(asking)) == 200


def test_where_everybody_asks_one_more_is_told_to_come_again(house: Open) -> None:
    opened = house(max_connections=2)
    asking = [opened.connect_and_wait(HELD) for _ in range(2)]
    wait_for(lambda: opened.asking == 2)

    refused = all_of(opened.connect())

    assert status_of(refused) == 503
    assert b"retry-after: 2\r\n" in refused
    opened.has_leave.set()
    assert [status_of(answer_on(wire)) for wire in asking] == [200, 200]
    wait_for(lambda: opened.connections == 2)
    assert status_of(answer_on(opened.connect(GET))) == 200


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_a_wish_for_another_protocol_is_passed_over(house: Open, protocol: bytes) -> None:
    opened = house()
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\n"
    head = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n" + upgrade + b"\r\n"
    wire = opened.connect(head + b"12")
    wait_for(lambda: opened.asking == 1)
    wire.sendall(b"34")

    assert status_of(answer_on(wire)) == 200
    wire.sendall(head + b"5678" + GET)
    assert status_of(answer_on(wire)) == 200
    wait_for(lambda: len(opened.told) == 3)
    assert opened.told == [b"1234", b"5678", b""]


def test_a_tunnel_is_refused(house: Open) -> None:
    assert status_of(all_of(house().connect(b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n"))) == 400


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
