"""Attacks that every kind of archive rejects alike, without leaving a file behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.datasets.limits import DatasetLimits
from registry.datasets.loader import open_dataset
from registry.errors import DatasetRejected, LimitExceeded

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


ESCAPES = ["../x.png", "a/../../x.png", "/tmp/x.png", "C:/x.png", "c:x.png", "a\\x.png", "..\\x.png"]


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_a_name_that_leaves_the_archive_is_refused(builder: DatasetBuilder, pack: str, name: str) -> None:
    files = {"a/1.png": builder.picture(1), name: builder.picture(2)}

    message = builder.rejection(builder.pack(pack, files))

    assert repr(name) in message


@pytest.mark.parametrize("pack", ["zip", "gz", "bz2", "xz"])
def test_a_bomb_is_refused_by_its_ratio(builder: DatasetBuilder, pack: str) -> None:
    files = {"a/1.png": builder.picture(1), "a/zeros.bmp": bytes(8_000_000)}
    path = builder.pack(pack, files)

    message = builder.rejection(path, error=LimitExceeded)

    assert "100 times its size, at 'a/zeros.bmp'" in message


def test_bytes_outside_the_selected_folder_count_too(builder: DatasetBuilder) -> None:
    path = builder.tar({"b/zeros.bmp": bytes(8_000_000), "a/c/1.png": builder.picture(1)}, "gz")

    assert "'b/zeros.bmp'" in builder.rejection(path, error=LimitExceeded, within="a")


@pytest.mark.parametrize("pack", ["zip", "tar", "folder"])
def test_every_limit_holds(builder: DatasetBuilder, pack: str) -> None:
    files = {f"a/{n}.png": builder.picture(n) for n in range(10)} | {"a/big.png": builder.picture(1, size=60) * 9}
    path = builder.pack(pack, files)
    size_bytes = max(map(len, files.values()))

    for limits, message in [
        (DatasetLimits(max_files=9), "more than 9 files"),
        (DatasetLimits(max_file_bytes=size_bytes - 1), "'a/big.png' is larger than"),
        (DatasetLimits(max_total_bytes=sum(map(len, files.values())) - 1), "bytes in total"),
        (DatasetLimits(max_name_length=8), "longer than 8 characters"),
        (DatasetLimits(max_depth=1), "deeper than 1 levels"),
    ]:
        assert message in builder.rejection(path, limits=limits, error=LimitExceeded)


@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_a_name_that_occurs_twice_is_refused(builder: DatasetBuilder, pack: str) -> None:
    files = {"a/1.png": builder.picture(1), "./a/1.png": builder.picture(2)}

    message = builder.rejection(builder.pack(pack, files))

    assert "'./a/1.png' occurs twice" in message


@pytest.mark.parametrize("pack", ["zip", "tar", "gz", "bz2", "xz"])
def test_an_archive_cut_off_anywhere_is_refused(builder: DatasetBuilder, pack: str) -> None:
    files = {f"a/{n}.png": builder.picture(n) for n in range(3)}
    path = builder.pack(pack, files)
    data = path.read_bytes()
    # A plain tar is padded with zeros behind its end mark, which nobody misses.
    whole = 3 * 1024 + 512 if pack == "tar" else len(data)

    for length in range(10, whole, max(1, whole // 40)):
        path.write_bytes(data[:length])
        builder.rejection(path)


@pytest.mark.parametrize("pack", ["zip", "gz", "bz2", "xz"])
def test_a_flipped_bit_is_found_by_the_checksum(builder: DatasetBuilder, pack: str) -> None:
    files = {"a/1.png": builder.picture(1, size=40), "a/2.png": builder.picture(2, size=40)}
    path = builder.pack(pack, files)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)

    assert "pack it again" in builder.rejection(path)


@pytest.mark.parametrize("pack", ["zip", "tar", "folder"])
@pytest.mark.parametrize("inner", ["zip", "tar", "gz"])
def test_an_archive_inside_is_refused(builder: DatasetBuilder, pack: str, inner: str) -> None:
    files = {"a/x.png": builder.picture(1)}
    nested = builder.pack(inner, files)
    outer = {"a/1.png": builder.picture(1), "a/2.png": nested.read_bytes()}

    message = builder.rejection(builder.pack(pack, outer), skip=True)

    assert "'a/2.png' is an archive" in message


@pytest.mark.parametrize("head", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x01", b"\x28\xb5\x2f\xfd", b"\x89PNG\0\0"])
def test_an_unsupported_or_missing_file_is_refused_by_name(builder: DatasetBuilder, head: bytes) -> None:
    assert "'x.zip' has an unsupported type" in builder.rejection(builder.file("x.zip", head + bytes(600)))
    assert "'nowhere' cannot be opened (No such file" in builder.rejection(builder.folder / "nowhere")


@pytest.mark.parametrize("within", ["../builder", "/etc", "b", "a/1.png"])
def test_a_wrong_subfolder_is_refused(builder: DatasetBuilder, within: str) -> None:
    files = {"a/1.png": builder.picture(1)}

    for path in (builder.zip(files), builder.tar(files), builder.tree(files)):
        assert within in builder.rejection(path, within=within)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(["zip", "tar", "gz", "xz"]))
def test_no_damage_causes_another_error(builder: DatasetBuilder, data: st.DataObject, pack: str) -> None:
    files = {"a/1.png": builder.picture(1), f"b/{'x' * 120}ä.png": builder.picture(2)}
    path = builder.pack(pack, files)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))
    path.write_bytes(content)

    try:
        with open_dataset(path, scratch=builder.scratch, unreadable="skip"):
            pass
    except DatasetRejected:
        pass

    assert list(builder.scratch.iterdir()) == []


def test_an_empty_archive_is_refused(builder: DatasetBuilder) -> None:
    for path in (
        builder.zip({}),
        builder.tar({}),
        builder.tar({}, "gz"),
        builder.tree({}),
        builder.tar({"README": b"x"}),
    ):
        assert "the dataset is empty" in builder.rejection(path)
