"""The HTTP/1.1 of the benchmark: requests built in advance, and messages with a content length."""

import re
from collections.abc import Sequence

BOUNDARY = "bench-picture-boundary"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class MessageUnreadable(ValueError):
    """A message has no content length."""


def build_form(picture: bytes) -> bytes:
    """Build a multipart form with the picture as its only field."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    )
    return head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()


def build_request(body: bytes, token: str | None) -> bytes:
    """Build a `POST /predict` request for a persistent connection."""
    lines = [
        "POST /predict HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        f"Content-Length: {len(body)}",
    ]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def build_requests(pictures: Sequence[bytes], tokens: Sequence[str | None]) -> list[bytes]:
    """Build a request for each picture and token; consecutive requests have different tokens."""
    forms = [build_form(picture) for picture in pictures]
    return [build_request(form, token) for form in forms for token in tokens]


class MessageReader:
    """Reads the messages of one connection; the next is sent only after the last was answered."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected_bytes: int | None = None  # of the whole message, once its head is complete

    def feed(self, data: bytes) -> bytes | None:
        """Add received bytes; return the message if it is complete."""
        self._buffer += data
        if self._expected_bytes is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return None
            length = _LENGTH.search(self._buffer, 0, end + 2)
            if length is None:
                raise MessageUnreadable("a message without a content length")
            self._expected_bytes = end + 4 + int(length[1])
        if len(self._buffer) < self._expected_bytes:
            return None
        message = bytes(self._buffer)
        self._buffer.clear()
        self._expected_bytes = None
        return message


def parse_status(message: bytes) -> int:
    """Return the status of a response."""
    return int(message[9:12])
