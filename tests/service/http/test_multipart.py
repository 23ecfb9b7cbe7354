"""Multipart bodies parse to the same parts, however they are split into chunks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import MalformedBody
from service.http.multipart import PartStart, parse_boundary, parse_multipart

BOUNDARY = b"fence"


def form_of(parts: Sequence[tuple[str, bytes]]) -> bytes:
    lines = [
        b'--fence\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\nContent-Type: a/b\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in parts
    ]
    return b"".join(lines) + b"--fence--\r\n"


async def in_chunks(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def read(chunks: Sequence[bytes]) -> list[tuple[str, bytes]]:
    async def main() -> list[tuple[str, bytes]]:
        parts: list[tuple[str, bytes]] = []
        async for event in parse_multipart(in_chunks(chunks), BOUNDARY):
            if isinstance(event, PartStart):
                parts.append((event.name, b""))
            else:
                name, content = parts.pop()
                parts.append((name, content + event))
        return parts

    return asyncio.run(main())


@given(
    parts=st.lists(st.tuples(st.sampled_from(["image", "task"]), st.binary(max_size=60)), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_the_split_into_chunks_changes_nothing(parts: list[tuple[str, bytes]], cuts: list[int]) -> None:
    body = form_of(parts)
    offsets = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]

    parsed = read([body[start:end] for start, end in pairwise(offsets)])

    assert parsed == parts


@given(st.binary(max_size=80))
def test_garbage_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read([body])


def test_a_form_without_its_end_is_refused() -> None:
    with pytest.raises(MalformedBody):
        read([form_of([("image", b"abc")])[:-6]])


def test_a_form_of_too_many_parts_is_refused() -> None:
    with pytest.raises(MalformedBody, match="parts"):
        read([form_of([("a", b"")] * 2001)])


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; b=c"])
def test_a_form_without_a_boundary_is_refused(kind: str) -> None:
    with pytest.raises(MalformedBody, match="boundary"):
        parse_boundary(kind)
