"""Malicious zips are rejected as a whole, by name, and leave nothing behind."""

from __future__ import annotations

import stat
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from registry.datasets.limits import DatasetLimits
from registry.errors import LimitExceeded

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """The zip with one field changed in every record of the signature's kind."""
    changed = bytearray(data)
    at = changed.find(signature)
    while at >= 0:
        changed[at + offset : at + offset + len(value)] = value
        at = changed.find(signature, at + 4)
    return bytes(changed)


def test_a_zip_name_is_not_cut_at_a_nul(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.pngX/../../../evil": builder.picture(1)})
    path.write_bytes(path.read_bytes().replace(b"1.pngX", b"1.png\0"))

    assert "outside the dataset" in builder.rejection(path)


def test_a_link_in_a_zip_is_refused(builder: DatasetBuilder) -> None:
    path = builder.folder / "pictures.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a/x.png")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    assert "'a/x.png' is a link" in builder.rejection(path)


def test_an_encrypted_zip_is_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/x.png": builder.picture(1)})
    path.write_bytes(patched(path.read_bytes(), b"PK\x01\x02", 8, b"\x01"))

    assert "'a/x.png' is encrypted" in builder.rejection(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_cannot_be_unpacked_in_pieces_is_refused(builder: DatasetBuilder, method: int) -> None:
    path = builder.folder / "pictures.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a/x.png", builder.picture(1))

    assert "pack the zip with deflate" in builder.rejection(path)


def test_a_zip_that_declares_less_than_it_holds_yields_no_more_than_it_declares(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": bytes(900_000)})
    data = path.read_bytes()
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        data = patched(data, signature, offset, struct.pack("<I", 100))
    path.write_bytes(data)

    assert "'a/1.png'" in builder.rejection(path, limits=DatasetLimits(max_file_bytes=1000))


def test_a_zip_that_declares_more_than_it_holds_is_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1)})
    path.write_bytes(patched(path.read_bytes(), b"PK\x01\x02", 24, struct.pack("<I", 5000)))

    assert "'a/1.png' does not have the size" in builder.rejection(path)


def test_overlapping_members_are_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1), "a/2.png": builder.picture(1)})
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)  # where the first one begins
    path.write_bytes(data)

    assert "overlaps another member" in builder.rejection(path)


def test_a_member_that_covers_the_directory_is_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1)})
    path.write_bytes(patched(path.read_bytes(), b"PK\x01\x02", 20, struct.pack("<I", 4000)))

    assert "overlaps the directory" in builder.rejection(path)


def test_a_zip_of_more_members_than_allowed_is_refused_before_they_are_listed(builder: DatasetBuilder) -> None:
    path = builder.zip({f"a/{n}": b"" for n in range(3000)})

    message = builder.rejection(path, limits=DatasetLimits(max_files=2000), error=LimitExceeded)

    assert message.startswith("the zip has more than 2000 files")


def test_a_zip_with_a_directory_of_absurd_length_is_refused_unread(builder: DatasetBuilder) -> None:
    path = builder.zip({f"a/{n:0200}": b"" for n in range(3000)})

    message = builder.rejection(path, limits=DatasetLimits(max_files=1000), error=LimitExceeded)

    assert "directory is too long" in message
