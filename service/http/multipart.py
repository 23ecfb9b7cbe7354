"""The parts of a multipart body as they come in, without any of them being kept here."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.errors import BodyUnreadable

BYTES = "application/octet-stream"
JSON = "application/json"
MULTIPART = "multipart/form-data"
MAX_PARTS = 2000


@dataclass(frozen=True)
class PartStart:
    """A part of this name begins; the bytes that follow are its own."""

    name: str


def parse_media_type(content_type: str) -> str:
    """The content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def parse_boundary(content_type: str) -> bytes:
    """What stands between the parts."""
    try:
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    except UnicodeEncodeError:
        boundary = b""
    if not boundary:
        raise BodyUnreadable("the multipart body names no boundary: let your HTTP library write the content type")
    return boundary


async def parse_multipart(chunks: AsyncIterator[bytes], boundary: bytes) -> AsyncIterator[PartStart | bytes]:
    """Each part's beginning, and then its bytes in pieces; BodyUnreadable for what is no multipart body."""
    reading = _Reading()
    try:
        parser = MultipartParser(boundary, reading.callbacks())  # type: ignore[arg-type]  # its types ask for a class
        async for chunk in chunks:
            parser.write(chunk)
            for event in reading.take():
                yield event
        parser.finalize()
    except FormParserError as error:
        raise BodyUnreadable("the multipart body is damaged or cut short") from error
    if not reading.has_ended:
        raise BodyUnreadable("the multipart body is cut short")


class _Reading:
    """What the parser has told since it was last asked."""

    def __init__(self) -> None:
        self.has_ended = False
        self._events: list[PartStart | bytes] = []
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._parts = 0

    def callbacks(self) -> dict[str, object]:
        return {
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin,
            "on_part_data": lambda data, start, end: self._events.append(bytes(data[start:end])),
            "on_end": self._end,
        }

    def take(self) -> list[PartStart | bytes]:
        events, self._events = self._events, []
        return events

    def _end_header(self) -> None:
        field, value = self._header
        if bytes(field).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise BodyUnreadable(f"the multipart body has more than {MAX_PARTS} parts: send fewer")
        options = parse_options_header(self._disposition)[1]
        self._disposition = b""
        self._events.append(PartStart(options.get(b"name", b"").decode("utf-8", "replace")))

    def _end(self) -> None:
        self.has_ended = True
