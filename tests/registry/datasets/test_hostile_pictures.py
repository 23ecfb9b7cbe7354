"""Wrong pictures and folders are rejected by name; the others are read."""

from __future__ import annotations

import os
import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from registry.datasets.limits import DatasetLimits
from registry.datasets.picture import PICTURE_FORMATS
from tests.registry.conftest import noise, picture

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header speaks of many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def animated_badly() -> bytes:
    """An APNG whose first picture is sound, and for those only who know no animations; the next is cut off."""
    file = BytesIO()
    first, second = Image.new("RGB", (4, 4)), Image.new("RGB", (4, 4), "red")
    first.save(file, "PNG", save_all=True, append_images=[second], default_image=True)
    return file.getvalue()[: file.getvalue().rindex(b"fdAT") + 10]


UNREADABLE = {
    "format that is seldom used and seldom tested": picture(1, kind="PCX"),
    "text": b"no picture at all",
    "empty": b"",
    "cut off": noise(40)[:2000],
    "animation that training could not see": animated_badly(),
    "bomb": png_that_claims(50_000, 50_000),
    "just over Pillow's own limit": png_that_claims(10_000, 10_000),
    "many pixels": png_that_claims(8_000, 8_000),
    "program for another program": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
@pytest.mark.parametrize("pack", ["zip", "folder"])
def test_an_unreadable_picture_refuses_the_dataset_or_is_skipped(
    builder: DatasetBuilder, pack: str, content: bytes
) -> None:
    path = builder.pack(pack, {"a/1.png": builder.picture(1), "a/2.png": content, "a/3.png": content})

    message = builder.rejection(path)
    collection = builder.read(path, skip=True)

    assert message.startswith("2 of 3 files cannot be used ('a/2.png': ")
    assert "--skip-unreadable" in message
    assert [s.name for s in collection.samples] == ["a/1.png"]
    assert [r.name for r in collection.skipped] == ["a/2.png", "a/3.png"]


def test_the_message_names_the_first_few_and_counts_the_rest(builder: DatasetBuilder) -> None:
    path = builder.tree({f"a/{n}.png": b"x%d" % n for n in range(9)})

    message = builder.rejection(path)

    assert message.startswith("9 of 9 files")
    assert "'a/2.png'" in message
    assert "'a/3.png'" not in message
    assert "and 6 more" in message


def test_a_picture_of_too_many_pixels_is_not_decoded(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1, size=11)})

    assert "11 x 11 pixels are more than 120" in builder.rejection(path, limits=DatasetLimits(max_pixels=120))
    assert len(builder.read(path, limits=DatasetLimits(max_pixels=121)).samples) == 1


def test_a_raised_limit_does_not_raise_pillows_own(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": png_that_claims(10_000, 10_000)})

    assert "more pixels than Pillow decodes" in builder.rejection(path, limits=DatasetLimits(max_pixels=10**9))


def test_pictures_of_every_mode_and_format_are_read(builder: DatasetBuilder) -> None:
    files: dict[str, bytes] = {}
    for kind, modes in {
        "PNG": ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"],
        "JPEG": ["L", "RGB", "CMYK"],
        "GIF": ["P"],
        "WEBP": ["RGBA"],
        "BMP": ["RGB"],
        "TIFF": ["F", "RGB"],
        "PPM": ["L"],
    }.items():
        for mode in modes:
            file = BytesIO()
            Image.new(mode, (5, 4)).save(file, kind)
            files[f"a/{kind}-{mode.replace(';', '')}"] = file.getvalue()

    assert len(builder.read(builder.zip(files)).samples) == len(files)


def test_the_same_picture_twice_under_one_label_is_kept_once(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/2.png": builder.picture(1), "a/1.png": builder.picture(1), "b/1.png": builder.picture(2)})

    collection = builder.read(path)

    assert {s.name for s in collection.samples} == {"a/1.png", "b/1.png"}
    assert [(r.name, r.reason) for r in collection.skipped] == [("a/2.png", "same picture as 'a/1.png'")]


def test_all_files_of_a_picture_under_two_labels_are_refused_or_skipped(builder: DatasetBuilder) -> None:
    twice = {"a/1.png": builder.picture(1), "b/x.png": builder.picture(1), "a/2.png": builder.picture(1)}
    path = builder.zip(twice | {"a/3.png": builder.picture(3), "b/4.png": builder.picture(4)})

    message = builder.rejection(path)
    collection = builder.read(path, skip=True)

    assert "'a/1.png': labelled 'a', but the same picture as 'b/x.png', labelled 'b'" in message
    assert "'b/x.png': labelled 'b'" in message
    assert {s.name for s in collection.samples} == {"a/3.png", "b/4.png"}
    assert [r.name for r in collection.skipped] == ["a/1.png", "a/2.png", "b/x.png"]


@pytest.mark.parametrize(
    ("pack", "files", "skip"),
    [("zip", {"pear/": b""}, False), ("folder", {}, False), ("gz", {"pear/2.png": b"x"}, True)],
)
def test_a_class_without_readable_pictures_is_refused(
    builder: DatasetBuilder, pack: str, files: dict[str, bytes], skip: bool
) -> None:
    (builder.folder / "pictures" / "pear").mkdir(parents=True)
    path = builder.pack(pack, {"a/1.png": builder.picture(1)} | files)

    assert "no readable picture of 'pear'" in builder.rejection(path, skip=skip)


def test_a_picture_outside_any_class_is_refused_or_skipped(builder: DatasetBuilder) -> None:
    path = builder.tree({"a/1.png": builder.picture(1), "b/1.png": builder.picture(3), "2.png": builder.picture(2)})

    assert "'2.png': lies outside any class folder" in builder.rejection(path)
    assert [r.name for r in builder.read(path, skip=True).skipped] == ["2.png"]


def test_pictures_without_any_label_are_refused(builder: DatasetBuilder) -> None:
    assert "no class folders and no labels" in builder.rejection(builder.tree({"2.png": builder.picture(2)}))


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_a_folder_with_a_link_or_pipe_is_refused(builder: DatasetBuilder, kind: str) -> None:
    outside = builder.tree({"b/1.png": builder.picture(1)}, name="outside")
    root = builder.tree({"a/1.png": builder.picture(2)})
    if kind == "pipe":
        os.mkfifo(root / "a/x")
    else:
        (root / "a/x").symlink_to(outside if kind == "folder" else outside / "b/1.png")

    expected = "'a/x' is a device, pipe or socket" if kind == "pipe" else "'a/x' is a link"
    assert builder.rejection(root, skip=True).startswith(expected)
    if kind == "folder":
        assert "is a link" in builder.rejection(root, within="a/x")


def test_what_can_be_served_can_be_uploaded_and_the_other_way_round() -> None:
    preprocess = pytest.importorskip("alacarte.prompting.backbone.preprocess", reason="torch is not installed")

    assert set(PICTURE_FORMATS) == set(preprocess.FORMATS)
