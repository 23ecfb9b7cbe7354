"""Wrong labels, CSV files and label files are rejected, and the message says where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.datasets.limits import DatasetLimits
from registry.errors import LimitExceeded

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


def test_an_overlong_label_is_refused(builder: DatasetBuilder) -> None:
    path = builder.zip({f"{'a' * 129}/1.png": builder.picture(1), "b/1.png": builder.picture(2)})

    assert "longer than 128 characters" in builder.rejection(path, error=LimitExceeded)


TABLES = {
    "unknown file": ("file,label\n1.png,a\n3.png,a\n", "line 3' names '3.png', which is not in the dataset"),
    "no file column": ("name,label\n1.png,a\n", "no column named file or filename or image or path"),
    "no label column": ("file,kind\n1.png,a\n", "no column named class or label or target"),
    "two file columns": ("file,path,label\n1.png,1.png,a\n", "several columns"),
    "no header": ("1.png,a\n", "no column"),
    "nothing": ("", "no column"),
    "no rows": ("file,label\n", "has no labelled picture"),
    "a way out": ("file,label\n../1.png,a\n", "'../1.png' points outside"),
    "an absolute path": ("file,label\n/etc/passwd,a\n", "'/etc/passwd' is an absolute path"),
    "a backslash": ("file,label\nx\\1.png,a\n", "backslash"),
    "an empty label": ("file,label\n1.png, \n", "line 2' has an empty label"),
    "an empty file": ("file,label\n,a\n", "line 2' names no file"),
    "a short row": ("file,label\n1.png\n", "line 2' has too few columns"),
    "two labels": ("file,label\n1.png,a\n./1.png,b\n", "labels '1.png' as 'b', but an earlier line labels it 'a'"),
    "an open quote": ('file,label\n"1.png,a\n', "not a valid CSV"),
    "itself": ("file,label\nlabels.csv,a\n", "which is not in the dataset"),
    "a NUL": ("file,label\n1.png,a\0\n", "control characters"),
}


@pytest.mark.parametrize(("table", "message"), TABLES.values(), ids=TABLES.keys())
def test_a_wrong_csv_is_refused(builder: DatasetBuilder, table: str, message: str) -> None:
    files = {"labels.csv": table.encode(), "1.png": builder.picture(1), "2.png": builder.picture(2)}

    assert message in builder.rejection(builder.zip(files), skip=True)
    assert message in builder.rejection(builder.tree(files), skip=True)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_csv_that_is_not_utf8_is_refused(builder: DatasetBuilder, encoding: str) -> None:
    root = builder.tree({"labels.csv": "file,label\n1.png,ä\n".encode(encoding), "1.png": builder.picture(1)})

    assert "not UTF-8" in builder.rejection(root)
    assert "not UTF-8" in builder.rejection(root / "labels.csv")


def test_a_csv_has_a_limit_of_rows(builder: DatasetBuilder) -> None:
    root = builder.tree({"labels.csv": b"file,label\n" + b"1.png,a\n" * 9, "1.png": builder.picture(1)})

    assert "more than 8 rows" in builder.rejection(root, limits=DatasetLimits(max_files=8), error=LimitExceeded)


def test_two_csv_files_are_refused(builder: DatasetBuilder) -> None:
    assert "'a.csv', 'b.CSV'" in builder.rejection(builder.zip({"a.csv": b"x", "b.CSV": b"x"}))


def test_a_csv_does_not_follow_links(builder: DatasetBuilder) -> None:
    outside = builder.tree({"1.png": builder.picture(1)}, name="outside")
    root = builder.tree({"labels.csv": b"file,label\nin/1.png,a\n"})
    (root / "in").symlink_to(outside)

    assert "'in/1.png' is a link" in builder.rejection(root / "labels.csv")


LABEL_FILES = {
    "not text": ("1.cls", b"\xff\xfe"),
    "not JSON": ("1.json", b"{"),
    "no label": ("1.json", b'{"class": "a"}'),
    "a list": ("1.json", b"[1]"),
    "a truth": ("1.json", b'{"label": true}'),
    "deep": ("1.json", b"[" * 60_000),
    "long": ("1.txt", b"a" * 70_000),
    "a line break": ("1.cls", b"a\nb"),
    "a tabulator": ("1.cls", b"a\tb"),
    "a change of direction": ("1.cls", "a\u202eb".encode()),
    "spaces": ("1.cls", b"   "),
}


@pytest.mark.parametrize(("name", "content"), LABEL_FILES.values(), ids=LABEL_FILES.keys())
def test_a_wrong_label_file_is_refused(builder: DatasetBuilder, name: str, content: bytes) -> None:
    assert repr(name) in builder.rejection(builder.tar({"1.png": builder.picture(1), name: content}))


def test_a_picture_or_label_file_alone_is_refused_or_skipped(builder: DatasetBuilder) -> None:
    files = {"1.png": builder.picture(1), "1.cls": b"a", "2.png": builder.picture(2), "3.cls": b"b"}
    path = builder.tar(files)

    message = builder.rejection(path)
    collection = builder.read(path, skip=True)

    assert "2 of 3 files" in message
    assert [r.name for r in collection.skipped] == ["2.png", "3.cls"]


def test_two_pictures_of_one_key_are_refused(builder: DatasetBuilder) -> None:
    path = builder.tar({"1.png": builder.picture(1), "1.jpg": builder.picture(2), "1.cls": b"a"})

    assert "'1.jpg' and '1.png' share one key" in builder.rejection(path)
