"""The bench's own HTTP: what it sends is a form, and what it takes in may come in pieces."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import parse_form

from bench.serving.http_messages import Arriving, MessageUnreadable, form_of, request_of, requests_of, status_of

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nabcde"


@given(st.lists(st.integers(1, len(ANSWER) - 1), unique=True))
def test_a_message_is_whole_when_its_last_piece_has_come_and_not_before(cuts: list[int]) -> None:
    arriving = Arriving()
    for _ in range(2):  # and the next on the same connection likewise
        places = [0, *sorted(cuts), len(ANSWER)]
        pieces = [ANSWER[begin:end] for begin, end in pairwise(places)]

        taken = [arriving.take(piece) for piece in pieces]

        assert taken == [None] * (len(pieces) - 1) + [ANSWER]


def test_a_message_without_a_length_is_refused() -> None:
    with pytest.raises(MessageUnreadable):
        Arriving().take(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_the_status_of_an_answer_is_read() -> None:
    assert status_of(ANSWER) == 200
    assert status_of(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") == 503


def test_a_request_is_a_form_with_the_picture() -> None:
    picture = bytes(range(256))
    request = request_of(form_of(picture), "alc_token")
    head, _, body = request.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    files: dict[bytes | None, bytes] = {}

    def keep(file: object) -> None:
        file_object = file.file_object  # type: ignore[attr-defined]
        file_object.seek(0)
        files[file.field_name] = file_object.read()  # type: ignore[attr-defined]

    parse_form({k: v.encode() for k, v in headers.items()}, io.BytesIO(body), lambda _: None, keep)

    assert files == {b"image": picture}
    assert headers["Authorization"] == "Bearer alc_token"
    assert b"Authorization" not in request_of(b"", None)


def test_neighbouring_requests_are_of_different_people() -> None:
    requests = requests_of([b"one", b"two"], ["ann", "ben"])

    assert [b"ann" in request for request in requests] == [True, False, True, False]
    assert [b"one" in request for request in requests] == [True, True, False, False]
