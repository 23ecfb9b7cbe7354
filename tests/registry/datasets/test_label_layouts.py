"""Every way in which a collection may say its labels yields the same samples."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.datasets.loader import open_dataset

if TYPE_CHECKING:
    from tests.registry.conftest import Workshop

Pack = Callable[["Workshop", Mapping[str, bytes]], Path]

PACKS: dict[str, Pack] = {
    "folder": lambda shop, files: shop.tree(files),
    "zip": lambda shop, files: shop.zip(files),
    "tar": lambda shop, files: shop.tar(files),
    "tar.gz": lambda shop, files: shop.tar(files, "gz"),
    "tar.bz2": lambda shop, files: shop.tar(files, "bz2"),
    "tar.xz": lambda shop, files: shop.tar(files, "xz"),
    "zip called .tar": lambda shop, files: shop.zip(files, name="wrong.tar"),
    "tar.xz called .csv": lambda shop, files: shop.tar(files, "xz", name="wrong.csv"),
    "tar without a suffix": lambda shop, files: shop.tar(files, name="pictures"),
}
packs = pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS.keys())
SHARED = Path(__file__).parents[3].parent / "shared"


@packs
def test_class_folders_are_read_from_any_package(shop: Workshop, pack: Pack) -> None:
    one, two, three = map(shop.picture, range(3))
    path = pack(shop, {"apple/1.png": one, "apple/deep/er/2.jpg": two, "pear/x": three})

    collection = shop.read(path)

    assert {(s.label, s.name) for s in collection.samples} == {
        ("apple", "apple/1.png"),
        ("apple", "apple/deep/er/2.jpg"),
        ("pear", "pear/x"),
    }
    assert collection.labels == ("apple", "pear")
    assert collection.skipped == ()
    assert [s.digest for s in collection.samples] == sorted(s.digest for s in collection.samples)


@packs
def test_a_lone_folder_around_everything_is_looked_into(shop: Workshop, pack: Pack) -> None:
    files = {"set/SOURCE.md": b"from", "set/a/1.png": shop.picture(1), "set/b/2.png": shop.picture(2)}

    assert shop.read(pack(shop, files)).labels == ("a", "b")


@packs
def test_within_picks_a_subfolder(shop: Workshop, pack: Pack) -> None:
    files = {
        "set/SOURCE.md": b"from",
        "set/train/a/1.png": shop.picture(1),
        "set/train/b/2.png": shop.picture(2),
        "set/test/a/3.png": shop.picture(3),
        "set/test/b/4.png": b"broken, but elsewhere",
    }

    collection = shop.read(pack(shop, files), within="set/train")

    assert {s.name for s in collection.samples} == {"set/train/a/1.png", "set/train/b/2.png"}
    assert collection.labels == ("a", "b")


@packs
def test_splits_are_not_taken_for_classes(shop: Workshop, pack: Pack) -> None:
    folders = ["t/a", "t/b", "u/a", "u/b"]
    files = {f"set/{folder}/1.png": shop.picture(number) for number, folder in enumerate(folders)}

    message = shop.refusal(pack(shop, files))

    assert "within='set/t'" in message


def test_splits_are_recognised_by_their_names_too(shop: Workshop) -> None:
    path = shop.tree({"train/a/1.png": shop.picture(1), "README": b"", "test/b/1.png": shop.picture(2)})

    assert "within='train'" in shop.refusal(path)


def test_a_class_may_be_called_train(shop: Workshop) -> None:
    path = shop.tree({"train/1.png": shop.picture(1), "bus/1.png": shop.picture(2)})

    assert shop.read(path).labels == ("bus", "train")


def test_a_lone_class_is_not_a_wrapping_folder(shop: Workshop) -> None:
    path = shop.zip({"apple/1.png": shop.picture(1), "apple/more/2.png": shop.picture(2)})

    assert shop.read(path).labels == ("apple",)


@packs
def test_a_table_at_the_root_names_the_pictures(shop: Workshop, pack: Pack) -> None:
    files = {
        "README.md": b"hello",
        "labels.csv": "file,label\nimages/1.png,apple\nimages/2.png,T-shirt/top\n".encode("utf-8-sig"),
        "images/1.png": shop.picture(1),
        "images/2.png": shop.picture(2),
        "images/3.png": shop.picture(3),
    }

    collection = shop.read(pack(shop, files))

    assert {(s.label, s.name) for s in collection.samples} == {
        ("apple", "images/1.png"),
        ("T-shirt/top", "images/2.png"),
    }
    assert [(r.name, r.reason) for r in collection.skipped] == [("images/3.png", "not named in the CSV")]


@pytest.mark.parametrize("file_column", ["file", "Filename", "PATH", " image "])
@pytest.mark.parametrize("label_column", ["label", "Class", "target"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_read_by_its_own_path(shop: Workshop, file_column: str, label_column: str, delimiter: str) -> None:
    root = shop.tree({"x/1.png": shop.picture(1), "unrelated.zip": b"PK\x03\x04"})
    lines = [("id", file_column, label_column), ("7", "./x/1.png", " ä b "), ("8", "x/1.png", "ä b")]
    table = root / "whatever.dat"
    table.write_text("\r\n".join(delimiter.join(line) for line in lines), "utf-8")

    collection = shop.read(table)

    assert [(s.label, s.name) for s in collection.samples] == [("ä b", "x/1.png")]
    assert collection.skipped == ()


@packs
def test_webdataset_pairs_are_read(shop: Workshop, pack: Pack) -> None:
    files = {
        "0001.jpg": shop.picture(1, kind="JPEG"),
        "0001.cls": b"apple\n",
        "0002.png": shop.picture(2),
        "0002.json": json.dumps({"label": "pear", "weight": 3}).encode(),
        "0003.webp": shop.picture(3, kind="WEBP"),
        "0003.txt": "ქლიავი".encode(),
        "0004.png": shop.picture(4),
        "0004.json": b'{"label": 7}',
    }

    collection = shop.read(pack(shop, files))

    assert {s.name: s.label for s in collection.samples} == {
        "0001.jpg": "apple",
        "0002.png": "pear",
        "0003.webp": "ქლიავი",
        "0004.png": "7",
    }


def test_captions_in_class_folders_do_not_make_pairs(shop: Workshop) -> None:
    path = shop.tree({"a/1.png": shop.picture(1), "a/1.txt": b"a red one", "b/1.png": shop.picture(2)})

    collection = shop.read(path, skip=True)

    assert collection.labels == ("a", "b")
    assert [r.name for r in collection.skipped] == ["a/1.txt"]


@packs
def test_litter_is_ignored(shop: Workshop, pack: Pack) -> None:
    files = {
        "a/1.png": shop.picture(1),
        "b/2.png": shop.picture(2),
        ".DS_Store": b"x",
        "a/.DS_Store": b"x",
        "a/Thumbs.db": b"x",
        "b/._2.png": b"x",
        "__MACOSX/a/._1.png": b"x",
        ".git/config": b"x",
        "LICENSE": b"x",
        "readme.txt": b"x",
    }

    collection = shop.read(pack(shop, files))

    assert (len(collection.samples), collection.skipped) == (2, ())


def test_labels_of_any_script_are_nfc_and_merge(shop: Workshop) -> None:
    composed, decomposed = "café", unicodedata.normalize("NFD", "café")
    files = {f"{composed}/1.png": 1, f"{decomposed}/1.png": 2, "می‌خواهم/1.png": 3, "🍎/1.png": 4}
    path = shop.zip({name: shop.picture(number) for name, number in files.items()})

    collection = shop.read(path)

    assert collection.labels == tuple(sorted([composed, "می‌خواهم", "🍎"]))
    assert sum(s.label == composed for s in collection.samples) == 2


def test_a_zip_whose_names_are_utf8_without_saying_so_keeps_its_labels(shop: Workshop) -> None:
    path = shop.zip({"äpfel/1.png": shop.picture(1), "b/2.png": shop.picture(2)})
    data = bytearray(path.read_bytes())
    for signature, flags_at in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        data[data.index(signature) + flags_at] &= ~0x08
    path.write_bytes(data)

    assert shop.read(path).labels == ("b", "äpfel")


@packs
def test_how_it_was_packed_does_not_change_the_samples(shop: Workshop, pack: Pack) -> None:
    files = {f"{'ab'[n % 2]}/{n}.png": shop.picture(n) for n in range(8)}
    expected = shop.read(shop.tree(dict(reversed(files.items())), name="reference"))

    collection = shop.read(pack(shop, files))

    assert [(s.label, s.name, s.digest) for s in collection.samples] == [
        (s.label, s.name, s.digest) for s in expected.samples
    ]


def test_a_folder_is_read_in_place(shop: Workshop) -> None:
    root = shop.tree({"a/1.png": shop.picture(1)})

    with open_dataset(root, scratch=shop.scratch) as collection:
        assert collection.samples[0].path == root / "a/1.png"
        assert list(shop.scratch.iterdir()) == []


def test_real_pictures_from_a_real_archive(shop: Workshop) -> None:
    archive = SHARED / "data" / "clothing10-tiny.tar.gz"
    if not archive.is_file():
        pytest.skip("no clothing10-tiny.tar.gz in ../shared/data beside the repository")

    collection = shop.read(archive, within="clothing10-tiny/train")

    assert len(collection.labels) == 10
    assert len(collection.samples) == 300
    assert collection.skipped == ()
    assert "within='clothing10-tiny/train'" in shop.refusal(archive)
