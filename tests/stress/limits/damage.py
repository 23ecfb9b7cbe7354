"""Strategies that damage files: change, move and cut bytes, or combine parts of different files."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.stress.limits.samples import PACKINGS, collections, packed, pictures

Change = Callable[[bytes], bytes]

NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
WORDS = tuple(
    struct.pack(form, number)
    for number in NUMBERS
    for form, most in (("B", 0xFF), ("<H", 0xFFFF), (">H", 0xFFFF), ("<I", 0xFFFFFFFF), (">I", 0xFFFFFFFF))
    if number <= most
)
NAMES = (
    *("../x.png", "/etc/x.png", "a/../../x", "C:\\x.png", "cat/\0.png", "cat/\n.png", "cat/" + "x" * 600, "cat//1.png"),
    *("a/" * 40 + "x.png", ".", "cat", "labels.csv", "metadata.jsonl", "1.cls", "1.json", "1.txt", ".DS_Store"),
    *("__MACOSX/cat/._1.jpg", "cat/é.png", "cat/e\u0301.png", "cat/\u202egnp.x", "CAT/1.jpg", "\udcff.png"),
)


def _offset(share: float, size: int) -> int:
    return min(size, int(share * (size + 1)))


def _overwrite(share: float, word: bytes, data: bytes) -> bytes:
    offset = _offset(share, len(data))
    return data[:offset] + word + data[offset + len(word) :]


def _flip(share: float, bit: int, data: bytes) -> bytes:
    if not data:
        return data
    offset = min(_offset(share, len(data)), len(data) - 1)
    return data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


def _move(share: float, other: float, size: int, data: bytes) -> bytes:
    """Copy a piece from one offset to another; with size 0, cut everything behind the offset."""
    first, second = _offset(share, len(data)), _offset(other, len(data))
    return data[:first] + data[second : second + size] + data[first:] if size else data[:first]


def _cut(share: float, size: int, data: bytes) -> bytes:
    offset = _offset(share, len(data))
    return data[:offset] + data[offset + size :]


# Headers are at the beginning, and in zips at the end, so damage there matters most.
SHARES = st.one_of(st.floats(0, 1), st.floats(0, 0.1), st.floats(0.85, 1))
CHANGES: SearchStrategy[Change] = st.one_of(
    st.builds(partial, st.just(_overwrite), SHARES, st.sampled_from(WORDS)),
    st.builds(partial, st.just(_overwrite), SHARES, st.binary(min_size=1, max_size=8)),
    st.builds(partial, st.just(_flip), SHARES, st.integers(0, 7)),
    st.builds(partial, st.just(_move), SHARES, SHARES, st.sampled_from((0, 1, 4, 16, 64, 512))),
    st.builds(partial, st.just(_cut), SHARES, st.sampled_from((1, 2, 4, 30, 512))),
)


def _apply(data: bytes, changes: Sequence[Change]) -> bytes:
    for change in changes:
        data = change(data)
    return data


def damaged(specimens: Sequence[bytes]) -> SearchStrategy[bytes]:
    """One of the specimens with a few changes, or two of them spliced."""

    def splice(data: bytes, other: bytes, share: float) -> bytes:
        return data[: _offset(share, len(data))] + other[_offset(share, len(other)) :]

    some = st.sampled_from(specimens)
    spliced = st.builds(splice, some, some, SHARES)
    return st.builds(_apply, st.one_of(some, some, spliced), st.lists(CHANGES, min_size=1, max_size=6))


def damaged_prompts(specimens: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Prompt files with damage anywhere, or in the text of the header alone with a correct length."""

    def rewrite(data: bytes, changes: Sequence[Change]) -> bytes:
        end = 8 + int.from_bytes(data[:8], "little")
        header = _apply(data[8:end], changes)
        return len(header).to_bytes(8, "little") + header + data[end:]

    texts = st.builds(rewrite, st.sampled_from(specimens), st.lists(CHANGES, min_size=1, max_size=3))
    return st.one_of(damaged(specimens), texts)


def damaged_members() -> SearchStrategy[bytes]:
    """Intact archives of damaged files, or of files with unusual names."""

    def pack(files: Mapping[str, bytes], changes: Sequence[tuple[int, str, bytes]], packing: str) -> bytes:
        inner = dict(files)
        for position, name, content in changes:
            old = list(inner)[position % len(inner)]
            inner[name or old] = content
        return packed(inner, packing)

    contents = st.one_of(damaged(pictures()), st.binary(max_size=60), damaged((b"file,label\na.jpg,cat\n", b'{"a":1}')))
    names = st.one_of(st.just(""), st.sampled_from(NAMES), st.text(min_size=1, max_size=20))
    change = st.tuples(st.integers(0, 9), names.filter(_is_encodable), contents)
    return st.builds(
        pack, st.sampled_from(collections()), st.lists(change, min_size=1, max_size=3), st.sampled_from(PACKINGS)
    )


def _is_encodable(name: str) -> bool:
    """Whether the archive writers, which are not under test, can write the name."""
    return all(not 0xD800 <= ord(character) <= 0xDFFF for character in name) and "\0" not in name
