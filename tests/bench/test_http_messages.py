"""The benchmark's HTTP: requests are forms, and responses may arrive in pieces."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import parse_form

from bench.serving.http_messages import (
    MessageReader,
    MessageUnreadable,
    build_form,
    build_request,
    build_requests,
    parse_status,
)

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nabcde"


@given(st.lists(st.integers(1, len(RESPONSE) - 1), unique=True))
def test_a_message_is_complete_with_its_last_piece(cuts: list[int]) -> None:
    reader = MessageReader()
    for _ in range(2):  # a second message on the same connection
        cuts_and_ends = [0, *sorted(cuts), len(RESPONSE)]
        pieces = [RESPONSE[begin:end] for begin, end in pairwise(cuts_and_ends)]

        received = [reader.feed(piece) for piece in pieces]

        assert received == [None] * (len(pieces) - 1) + [RESPONSE]


def test_a_message_without_a_length_is_refused() -> None:
    with pytest.raises(MessageUnreadable):
        MessageReader().feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def test_the_status_of_a_response_is_parsed() -> None:
    assert parse_status(RESPONSE) == 200
    assert parse_status(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") == 503


def test_a_request_is_a_form_with_the_picture() -> None:
    picture = bytes(range(256))
    request = build_request(build_form(picture), "alc_token")
    head, _, body = request.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    files: dict[bytes | None, bytes] = {}

    def save_file(file: object) -> None:
        file_object = file.file_object  # type: ignore[attr-defined]
        file_object.seek(0)
        files[file.field_name] = file_object.read()  # type: ignore[attr-defined]

    parse_form({k: v.encode() for k, v in headers.items()}, io.BytesIO(body), lambda _: None, save_file)

    assert files == {b"image": picture}
    assert headers["Authorization"] == "Bearer alc_token"
    assert b"Authorization" not in build_request(b"", None)


def test_consecutive_requests_have_different_tokens() -> None:
    requests = build_requests([b"one", b"two"], ["ann", "ben"])

    assert [b"ann" in request for request in requests] == [True, False, True, False]
    assert [b"one" in request for request in requests] == [True, True, False, False]
