"""Every layout of labels gives the same samples."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from registry.datasets.dataset import SkippedFile
from registry.datasets.loader import open_dataset
from tests.registry.conftest import DatasetBuilder, picture

Pack = Callable[..., Path]  # of a builder and files

PACKS: dict[str, Pack] = {
    **{kind: partial(DatasetBuilder.pack, kind=kind) for kind in ("folder", "zip", "tar", "gz", "bz2", "xz")},
    "zip called .tar": partial(DatasetBuilder.zip, name="wrong.tar"),
    "tar.xz called .csv": partial(DatasetBuilder.tar, compression="xz", name="wrong.csv"),
    "tar without a suffix": partial(DatasetBuilder.tar, name="pictures"),
}
packs = pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS.keys())
SHARED = Path(__file__).parents[3].parent / "shared"


@dataclass(frozen=True)
class Layout:
    """The files of a dataset, and the labels of those that are its samples."""

    files: dict[str, bytes]
    labels: dict[str, str]
    within: str | None = None
    skipped: tuple[SkippedFile, ...] = ()


LAYOUTS = {
    "class folders": Layout(
        {"apple/1.png": picture(1), "apple/deep/er/2.jpg": picture(2), "pear/x": picture(3)},
        {"apple/1.png": "apple", "apple/deep/er/2.jpg": "apple", "pear/x": "pear"},
    ),
    "a wrapping folder": Layout(
        {"set/SOURCE.md": b"from", "set/a/1.png": picture(1), "set/b/2.png": picture(2)},
        {"set/a/1.png": "a", "set/b/2.png": "b"},
    ),
    "a selected subfolder": Layout(
        {
            "set/SOURCE.md": b"from",
            "set/train/a/1.png": picture(1),
            "set/train/b/2.png": picture(2),
            "set/test/a/3.png": picture(3),
            "set/test/b/4.png": b"broken, but elsewhere",
        },
        {"set/train/a/1.png": "a", "set/train/b/2.png": "b"},
        within="set/train",
    ),
    "a CSV at the root": Layout(
        {
            "README.md": b"hello",
            "labels.csv": "file,label\nimages/1.png,apple\nimages/2.png,T-shirt/top\n".encode("utf-8-sig"),
            "images/1.png": picture(1),
            "images/2.png": picture(2),
            "images/3.png": picture(3),
        },
        {"images/1.png": "apple", "images/2.png": "T-shirt/top"},
        skipped=(SkippedFile("images/3.png", "not named in the CSV"),),
    ),
    "WebDataset pairs": Layout(
        {
            "0001.jpg": picture(1, kind="JPEG"),
            "0001.cls": b"apple\n",
            "0002.png": picture(2),
            "0002.json": json.dumps({"label": "pear", "weight": 3}).encode(),
            "0003.webp": picture(3, kind="WEBP"),
            "0003.txt": "ქლიავი".encode(),
            "0004.png": picture(4),
            "0004.json": b'{"label": 7}',
        },
        {"0001.jpg": "apple", "0002.png": "pear", "0003.webp": "ქლიავი", "0004.png": "7"},
    ),
    "system files": Layout(
        {"a/1.png": picture(1), "b/2.png": picture(2)}
        | dict.fromkeys([".DS_Store", "a/.DS_Store", "a/Thumbs.db", "b/._2.png", "__MACOSX/a/._1.png"], b"x")
        | dict.fromkeys([".git/config", "LICENSE", "readme.txt"], b"x"),
        {"a/1.png": "a", "b/2.png": "b"},
    ),
}


@packs
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_is_read_alike_from_any_package(builder: DatasetBuilder, pack: Pack, layout: Layout) -> None:
    collection = builder.read(pack(builder, files=layout.files), within=layout.within)

    expected = [(sha256(layout.files[name]).hexdigest(), label, name) for name, label in layout.labels.items()]
    assert [(s.digest, s.label, s.name) for s in collection.samples] == sorted(expected)
    assert collection.labels == tuple(sorted(set(layout.labels.values())))
    assert collection.skipped == layout.skipped


@packs
def test_train_and_test_folders_are_not_taken_for_classes(builder: DatasetBuilder, pack: Pack) -> None:
    folders = ["t/a", "t/b", "u/a", "u/b"]
    files = {f"set/{folder}/1.png": builder.picture(number) for number, folder in enumerate(folders)}

    message = builder.rejection(pack(builder, files=files))

    assert "within='set/t'" in message


def test_train_and_test_folders_are_recognised_by_their_names_too(builder: DatasetBuilder) -> None:
    path = builder.tree({"train/a/1.png": builder.picture(1), "README": b"", "test/b/1.png": builder.picture(2)})

    assert "within='train'" in builder.rejection(path)


def test_a_class_may_be_called_train(builder: DatasetBuilder) -> None:
    path = builder.tree({"train/1.png": builder.picture(1), "bus/1.png": builder.picture(2)})

    assert builder.read(path).labels == ("bus", "train")


def test_a_lone_class_is_not_a_wrapping_folder(builder: DatasetBuilder) -> None:
    path = builder.zip({"apple/1.png": builder.picture(1), "apple/more/2.png": builder.picture(2)})

    assert builder.read(path).labels == ("apple",)


@pytest.mark.parametrize("file_column", ["file", "Filename", "PATH", " image "])
@pytest.mark.parametrize("label_column", ["label", "Class", "target"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_is_read_by_its_own_path(
    builder: DatasetBuilder, file_column: str, label_column: str, delimiter: str
) -> None:
    root = builder.tree({"x/1.png": builder.picture(1), "unrelated.zip": b"PK\x03\x04"})
    lines = [("id", file_column, label_column), ("7", "./x/1.png", " ä b "), ("8", "x/1.png", "ä b")]
    table = root / "whatever.dat"
    table.write_text("\r\n".join(delimiter.join(line) for line in lines), "utf-8")

    collection = builder.read(table)

    assert [(s.label, s.name) for s in collection.samples] == [("ä b", "x/1.png")]
    assert collection.skipped == ()


def test_captions_in_class_folders_do_not_make_pairs(builder: DatasetBuilder) -> None:
    path = builder.tree({"a/1.png": builder.picture(1), "a/1.txt": b"a red one", "b/1.png": builder.picture(2)})

    collection = builder.read(path, skip=True)

    assert collection.labels == ("a", "b")
    assert [r.name for r in collection.skipped] == ["a/1.txt"]


def test_labels_of_any_script_are_nfc_and_merge(builder: DatasetBuilder) -> None:
    composed, decomposed = "café", unicodedata.normalize("NFD", "café")
    files = {f"{composed}/1.png": 1, f"{decomposed}/1.png": 2, "می‌خواهم/1.png": 3, "🍎/1.png": 4}
    path = builder.zip({name: builder.picture(number) for name, number in files.items()})

    collection = builder.read(path)

    assert collection.labels == tuple(sorted([composed, "می‌خواهم", "🍎"]))
    assert sum(s.label == composed for s in collection.samples) == 2


def test_utf8_names_without_the_flag_keep_their_labels(builder: DatasetBuilder) -> None:
    path = builder.zip({"äpfel/1.png": builder.picture(1), "b/2.png": builder.picture(2)})
    data = bytearray(path.read_bytes())
    for signature, flags_at in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        data[data.index(signature) + flags_at] &= ~0x08
    path.write_bytes(data)

    assert builder.read(path).labels == ("b", "äpfel")


def test_a_folder_is_read_in_place(builder: DatasetBuilder) -> None:
    root = builder.tree({"a/1.png": builder.picture(1)})

    with open_dataset(root, scratch=builder.scratch) as collection:
        assert collection.samples[0].path == root / "a/1.png"
        assert list(builder.scratch.iterdir()) == []


def test_real_pictures_from_a_real_archive(builder: DatasetBuilder) -> None:
    archive = SHARED / "data" / "clothing10-tiny.tar.gz"
    if not archive.is_file():
        pytest.skip("no clothing10-tiny.tar.gz in ../shared/data beside the repository")

    collection = builder.read(archive, within="clothing10-tiny/train")

    assert len(collection.labels) == 10
    assert len(collection.samples) == 300
    assert collection.skipped == ()
    assert "within='clothing10-tiny/train'" in builder.rejection(archive)
