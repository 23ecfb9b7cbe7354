"""Malicious tars are rejected as a whole, by name, and leave nothing behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from registry.errors import LimitExceeded

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


@pytest.mark.parametrize("name", ["a/x\x00.png", "a/x\n.png", "a/\u202egnp.x", "a/\udcff.png"])
def test_an_unprintable_name_is_refused(builder: DatasetBuilder, name: str) -> None:
    path = builder.folder / "pictures.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as archive:
        archive.addfile(tarfile.TarInfo(name.replace("\x00", "\x01")))

    assert "rename it" in builder.rejection(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"?"]
)
@pytest.mark.parametrize("name", ["a/x.png", "a/.hidden"])
def test_a_tar_member_that_is_no_file_is_refused(builder: DatasetBuilder, kind: bytes, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"

    message = builder.rejection(builder.tar_of(info))

    assert message.startswith(f"{name!r} is a link, device or pipe")


def test_a_sparse_file_is_refused(builder: DatasetBuilder) -> None:
    info = tarfile.TarInfo("a/x.png")
    info.type = tarfile.GNUTYPE_SPARSE

    assert "pack ordinary files only" in builder.rejection(builder.tar_of(info))


def test_a_bomb_behind_the_end_mark_is_found(builder: DatasetBuilder) -> None:
    path = builder.tar({"a/1.png": builder.picture(1)})
    path.write_bytes(gzip.compress(path.read_bytes() + bytes(8_000_000)))

    assert "times its size" in builder.rejection(path, error=LimitExceeded)


def test_a_tar_cut_off_between_two_members_is_refused(builder: DatasetBuilder) -> None:
    path = builder.tar({"a/1.png": builder.picture(1), "a/2.png": builder.picture(2)})
    path.write_bytes(path.read_bytes()[:1024])

    assert "damaged after 'a/1.png'" in builder.rejection(path)


def test_two_tars_in_one_file_are_refused(builder: DatasetBuilder) -> None:
    data = builder.tar({"a/1.png": builder.picture(1)}).read_bytes()

    assert "after its end mark" in builder.rejection(builder.file("two.tar", data + data))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_streams_one_after_another_are_one_archive(
    builder: DatasetBuilder, compress: Callable[[bytes], bytes]
) -> None:
    data = builder.tar({"a/1.png": builder.picture(1)}).read_bytes()
    path = builder.file("parts", compress(data[:700]) + compress(data[700:]))

    assert len(builder.read(path).samples) == 1


def test_a_compressed_file_that_is_no_tar_is_refused(builder: DatasetBuilder) -> None:
    assert "no valid tar header" in builder.rejection(builder.file("x.gz", gzip.compress(b"hello" * 500)))


def test_headers_of_absurd_length_are_refused_unread(builder: DatasetBuilder) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4_000_000

    assert "headers" in builder.rejection(builder.tar_of(info), error=LimitExceeded)


def test_headers_without_end_are_refused(builder: DatasetBuilder) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type = tarfile.GNUTYPE_LONGNAME

    assert "headers" in builder.rejection(builder.tar_of(*[info] * 2000), error=LimitExceeded)


def test_a_header_that_is_slow_to_parse_is_refused(builder: DatasetBuilder) -> None:
    path = builder.folder / "pictures.tar"
    payload = b"1" * 15_000
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(payload)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(payload))

    assert "headers after 'its beginning' are damaged" in builder.rejection(path)


@pytest.mark.parametrize("size", [-512, -(2**40)])
def test_a_negative_size_is_refused(builder: DatasetBuilder, size: int) -> None:
    info = tarfile.TarInfo("a/1.png")
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = struct.pack(">Iq", 0xFFFFFFFF, size)
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block[:512])

    assert "'a/1.png' is damaged" in builder.rejection(builder.file("x.tar", bytes(block) + bytes(10240)))


def test_an_xz_that_asks_for_much_memory_is_refused(builder: DatasetBuilder) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**28}]
    data = bytearray(lzma.compress(bytes(1024), filters=filters, check=lzma.CHECK_NONE))

    assert "emory usage limit" in builder.rejection(builder.file("x.tar.xz", bytes(data)))


def test_reading_stops_at_the_first_bad_member(builder: DatasetBuilder) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../x"))
    path = builder.file("x.tar", file.getvalue()[:512] + b"\xff" * 4096)

    assert "'../x' points outside" in builder.rejection(path)
