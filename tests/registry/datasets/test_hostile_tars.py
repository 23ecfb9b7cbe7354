"""Malicious tars are rejected as a whole, by name, and leave nothing behind."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from registry.errors import DatasetRejected, LimitExceeded

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder

END = bytes(10240)
XZ_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**28}]


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, "" if kind == tarfile.REGTYPE else "/etc/passwd"
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def header_with_negative_size(size: int) -> bytes:
    block = bytearray(header("a/1.png"))
    block[124:136] = struct.pack(">Iq", 0xFFFFFFFF, size)
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)


# From the bytes of a tar of 'a/1.png' to those of a hostile one.
HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str, type[DatasetRejected]]] = {
    "sparse file": (
        lambda _: header("a/x.png", tarfile.GNUTYPE_SPARSE) + END,
        "pack ordinary files only",
        DatasetRejected,
    ),
    "bomb behind the end mark": (
        lambda tar: gzip.compress(tar + bytes(8_000_000)),
        "times its size",
        LimitExceeded,
    ),
    "cut off between two members": (lambda tar: tar[:1024], "damaged after 'a/1.png'", DatasetRejected),
    "two tars in one file": (lambda tar: tar + tar, "after its end mark", DatasetRejected),
    "compressed, but no tar": (lambda _: gzip.compress(b"hello" * 500), "no valid tar header", DatasetRejected),
    "header of absurd length": (
        lambda _: header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 4_000_000) + bytes(4_000_256) + END,
        "headers",
        LimitExceeded,
    ),
    "headers without end": (
        lambda _: header("././@LongLink", tarfile.GNUTYPE_LONGNAME) * 2000 + END,
        "headers",
        LimitExceeded,
    ),
    "header that is slow to parse": (
        lambda _: header("x", tarfile.XHDTYPE, 15_360) + b"1" * 15_360 + END,
        "headers after 'its beginning' are damaged",
        DatasetRejected,
    ),
    "negative size": (lambda _: header_with_negative_size(-512) + END, "'a/1.png' is damaged", DatasetRejected),
    "large negative size": (
        lambda _: header_with_negative_size(-(2**40)) + END,
        "'a/1.png' is damaged",
        DatasetRejected,
    ),
    "xz that asks for much memory": (
        lambda _: lzma.compress(bytes(1024), filters=XZ_FILTERS, check=lzma.CHECK_NONE),
        "emory usage limit",
        DatasetRejected,
    ),
    "damage behind a bad member": (lambda _: header("../x") + b"\xff" * 4096, "'../x' points outside", DatasetRejected),
}


@pytest.mark.parametrize(("change", "message", "error"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_tar_is_refused(
    builder: DatasetBuilder, change: Callable[[bytes], bytes], message: str, error: type[DatasetRejected]
) -> None:
    tar = builder.tar({"a/1.png": builder.picture(1)}).read_bytes()

    assert message in builder.rejection(builder.file("hostile", change(tar)), error=error)


@pytest.mark.parametrize("name", ["a/x\x01.png", "a/x\n.png", "a/\u202egnp.x", "a/\udcff.png"])
def test_an_unprintable_name_is_refused(builder: DatasetBuilder, name: str) -> None:
    assert "rename it" in builder.rejection(builder.file("hostile", header(name) + END))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"?"]
)
@pytest.mark.parametrize("name", ["a/x.png", "a/.hidden"])
def test_a_tar_member_that_is_no_file_is_refused(builder: DatasetBuilder, kind: bytes, name: str) -> None:
    message = builder.rejection(builder.file("hostile", header(name, kind) + END))

    assert message.startswith(f"{name!r} is a link, device or pipe")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_streams_one_after_another_are_one_archive(
    builder: DatasetBuilder, compress: Callable[[bytes], bytes]
) -> None:
    data = builder.tar({"a/1.png": builder.picture(1)}).read_bytes()

    assert len(builder.read(builder.file("parts", compress(data[:700]) + compress(data[700:]))).samples) == 1
