"""HTTP/1.1 as the bench speaks it: requests made beforehand, and messages with a content length taken in."""

import re
from collections.abc import Sequence

BOUNDARY = "a-picture-of-the-bench"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class MessageUnreadable(ValueError):
    """The bench takes messages with a content length only."""


def form_of(picture: bytes) -> bytes:
    """The picture as the one field of a form."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    )
    return head.encode() + picture + f"\r\n--{BOUNDARY}--\r\n".encode()


def request_of(body: bytes, token: str | None) -> bytes:
    """A whole `POST /predict` on a connection that stays open."""
    lines = [
        "POST /predict HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        f"Content-Length: {len(body)}",
    ]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def requests_of(pictures: Sequence[bytes], tokens: Sequence[str | None]) -> list[bytes]:
    """Each picture asked by each of the tokens, neighbours by different ones."""
    forms = [form_of(picture) for picture in pictures]
    return [request_of(form, token) for form in forms for token in tokens]


class Arriving:
    """One message after the other, of one connection; nobody sends before the last was answered."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._wanted: int | None = None  # bytes of the whole message, once its head is there

    def take(self, data: bytes) -> bytes | None:
        """The whole message, if these bytes are the last of it."""
        self._held += data
        if self._wanted is None:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return None
            length = _LENGTH.search(self._held, 0, end + 2)
            if length is None:
                raise MessageUnreadable("a message without a content length")
            self._wanted = end + 4 + int(length[1])
        if len(self._held) < self._wanted:
            return None
        message = bytes(self._held)
        self._held.clear()
        self._wanted = None
        return message


def status_of(message: bytes) -> int:
    """The status of a response."""
    return int(message[9:12])
