"""Damage to files: strategies that change bytes here and there, or put together what does not belong together."""

import struct
from collections.abc import Callable, Mapping, Sequence

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
    *("a/" * 40 + "x.png", "", ".", "cat", "labels.csv", "metadata.jsonl", "1.cls", "1.json", "1.txt", ".DS_Store"),
    *("__MACOSX/cat/._1.jpg", "cat/é.png", "cat/e\u0301.png", "cat/\u202egnp.x", "CAT/1.jpg", "\udcff.png"),
)


def _place(share: float, size: int) -> int:
    return min(size, int(share * (size + 1)))


def _overwritten(share: float, word: bytes) -> Change:
    def change(data: bytes) -> bytes:
        place = _place(share, len(data))
        return data[:place] + word + data[place + len(word) :]

    return change


def _flipped(share: float, bit: int) -> Change:
    def change(data: bytes) -> bytes:
        if not data:
            return data
        place = min(_place(share, len(data)), len(data) - 1)
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]

    return change


def _moved(share: float, other: float, size: int) -> Change:
    """A piece taken from one place, and put in again at another; of no size, all behind the place is cut off."""

    def change(data: bytes) -> bytes:
        first, second = _place(share, len(data)), _place(other, len(data))
        if not size:
            return data[:first]
        return data[:first] + data[second : second + size] + data[first:]

    return change


def _without(share: float, size: int) -> Change:
    def change(data: bytes) -> bytes:
        place = _place(share, len(data))
        return data[:place] + data[place + size :]

    return change


# Headers stand at the beginning, and in zips at the end: damage there is found soonest.
SHARES = st.one_of(st.floats(0, 1), st.floats(0, 0.1), st.floats(0.85, 1))
CHANGES: SearchStrategy[Change] = st.one_of(
    st.builds(_overwritten, SHARES, st.sampled_from(WORDS)),
    st.builds(_overwritten, SHARES, st.binary(min_size=1, max_size=8)),
    st.builds(_flipped, SHARES, st.integers(0, 7)),
    st.builds(_moved, SHARES, SHARES, st.sampled_from((0, 1, 4, 16, 64, 512))),
    st.builds(_without, SHARES, st.sampled_from((1, 2, 4, 30, 512))),
)


def _changed(data: bytes, changes: Sequence[Change]) -> bytes:
    for change in changes:
        data = change(data)
    return data


def damaged(specimens: Sequence[bytes]) -> SearchStrategy[bytes]:
    """One of the specimens, with a few changes; some are spliced with another's end."""

    def splice(data: bytes, other: bytes, share: float) -> bytes:
        return data[: _place(share, len(data))] + other[_place(share, len(other)) :]

    some = st.sampled_from(specimens)
    spliced = st.builds(splice, some, some, SHARES)
    return st.builds(_changed, st.one_of(some, some, spliced), st.lists(CHANGES, min_size=1, max_size=6))


def damaged_prompts(specimens: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Prompt files with damage anywhere, or in the text of the header alone, whose length is told truly."""

    def rewrite(data: bytes, changes: Sequence[Change]) -> bytes:
        end = 8 + int.from_bytes(data[:8], "little")
        header = _changed(data[8:end], changes)
        return len(header).to_bytes(8, "little") + header + data[end:]

    texts = st.builds(rewrite, st.sampled_from(specimens), st.lists(CHANGES, min_size=1, max_size=3))
    return st.one_of(damaged(specimens), texts)


def damaged_members() -> SearchStrategy[bytes]:
    """Archives that are sound, of files that are not, or that have names which nobody gives."""

    def pack(files: Mapping[str, bytes], changes: Sequence[tuple[int, str, bytes]], packing: str) -> bytes:
        inner = dict(files)
        for place, name, content in changes:
            old = list(inner)[place % len(inner)]
            inner[name or old] = content
        return packed(inner, packing)

    contents = st.one_of(damaged(pictures()), st.binary(max_size=60), damaged((b"file,label\na.jpg,cat\n", b'{"a":1}')))
    names = st.one_of(st.just(""), st.sampled_from([name for name in NAMES if name]), st.text(min_size=1, max_size=20))
    encodable = names.filter(_is_encodable)
    change = st.tuples(st.integers(0, 9), encodable, contents)
    return st.builds(
        pack, st.sampled_from(collections()), st.lists(change, min_size=1, max_size=3), st.sampled_from(PACKINGS)
    )


def _is_encodable(name: str) -> bool:
    """Whether the packers can write it: they are no part of what is tested."""
    return all(not 0xD800 <= ord(character) <= 0xDFFF for character in name) and "\0" not in name
