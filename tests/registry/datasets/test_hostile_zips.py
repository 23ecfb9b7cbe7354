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


def test_overlapping_members_are_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1), "a/2.png": builder.picture(1)})
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)  # where the first one begins
    path.write_bytes(data)

    assert "overlaps another member" in builder.rejection(path)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        pytest.param(8, b"\x01", "'a/1.png' is encrypted", id="encrypted"),
        pytest.param(20, struct.pack("<I", 4000), "overlaps the directory", id="member over the directory"),
        pytest.param(24, struct.pack("<I", 5000), "'a/1.png' does not have the size", id="declares more than it holds"),
    ],
)
def test_a_hostile_directory_entry_is_refused(builder: DatasetBuilder, offset: int, value: bytes, message: str) -> None:
    path = builder.zip({"a/1.png": builder.picture(1)})
    path.write_bytes(patched(path.read_bytes(), b"PK\x01\x02", offset, value))

    assert message in builder.rejection(path)


@pytest.mark.parametrize(
    ("digits", "max_files", "message"),
    [(1, 2000, "the zip has more than 2000 files"), (200, 1000, "directory is too long")],
    ids=["more members than allowed", "directory of absurd length"],
)
def test_a_zip_is_refused_before_its_members_are_listed(
    builder: DatasetBuilder, digits: int, max_files: int, message: str
) -> None:
    path = builder.zip({f"a/{n:0{digits}}": b"" for n in range(3000)})

    assert message in builder.rejection(path, limits=DatasetLimits(max_files=max_files), error=LimitExceeded)
