"""Parse a multipart body as it streams in, without buffering its parts."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.errors import MalformedBody

MAX_PARTS = 2000


@dataclass(frozen=True)
class PartStart:
    """The start of a part; the bytes that follow are its content."""

    name: str


def parse_boundary(content_type: str) -> bytes:
    """Return the boundary of a multipart content type."""
    try:
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    except UnicodeEncodeError:
        boundary = b""
    if not boundary:
        raise MalformedBody("the content type has no multipart boundary: let your HTTP library write the header")
    return boundary


async def parse_multipart(chunks: AsyncIterator[bytes], boundary: bytes) -> AsyncIterator[PartStart | bytes]:
    """Yield the start of each part, then its bytes in chunks; MalformedBody for anything else."""
    events = _ParserEvents()
    try:
        parser = MultipartParser(boundary, events.callbacks())  # type: ignore[arg-type]  # it accepts a dict
        async for chunk in chunks:
            parser.write(chunk)
            for event in events.take():
                yield event
        parser.finalize()
    except FormParserError as error:
        raise MalformedBody("the multipart body is malformed or truncated") from error
    if not events.has_ended:
        raise MalformedBody("the multipart body is truncated")


class _ParserEvents:
    """Collects the parser's callbacks as events."""

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
            "on_headers_finished": self._start_part,
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

    def _start_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedBody(f"the multipart body has more than {MAX_PARTS} parts: send fewer")
        options = parse_options_header(self._disposition)[1]
        self._disposition = b""
        self._events.append(PartStart(options.get(b"name", b"").decode("utf-8", "replace")))

    def _end(self) -> None:
        self.has_ended = True
