"""Labels from a table: a CSV that names each picture's file and label."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from registry.datasets.annotations import Annotation, AnnotationSet
from registry.datasets.file_tree import DatasetFile, FileTree, PathParts
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import describe_error, normalize_label, quote, to_nfc
from registry.datasets.sample import SkippedFile
from registry.errors import DatasetRejected, LimitExceeded

FILE_COLUMNS = frozenset({"file", "filename", "path", "image"})
LABEL_COLUMNS = frozenset({"label", "class", "target"})


@dataclass(frozen=True)
class CsvRow:
    """One line of the table, checked by itself."""

    parts: PathParts
    label: str
    origin: str  # for messages


def read_csv(file: BinaryIO, name: str, limits: DatasetLimits) -> list[CsvRow]:
    """The rows of the table; the first error refuses it, with the line."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        return list(_rows(text, name, limits))
    except UnicodeDecodeError as error:
        raise DatasetRejected(f"{quote(name)} is not UTF-8 text: save the table as UTF-8") from error
    except csv.Error as error:
        raise DatasetRejected(
            f"{quote(name)} is not a readable CSV ({describe_error(error)}): save it again"
        ) from error
    finally:
        text.detach()  # the file belongs to the caller


def _rows(text: io.TextIOWrapper, name: str, limits: DatasetLimits) -> Iterator[CsvRow]:
    header = text.readline()
    # Spreadsheets write semicolons or tabs in many countries.
    reader = csv.reader(chain([header], text), delimiter=max(",;\t", key=header.count), strict=True)
    columns = [cell.strip().casefold() for cell in next(reader, [])]
    file_column = _column(columns, FILE_COLUMNS, name)
    label_column = _column(columns, LABEL_COLUMNS, name)
    for count, cells in enumerate(filter(None, reader), start=1):
        if count > limits.max_files:
            raise LimitExceeded(f"{quote(name)} has more than {limits.max_files} rows: split the collection")
        origin = f"{name}, line {reader.line_num}"
        if len(cells) <= max(file_column, label_column):
            raise DatasetRejected(f"{quote(origin)} has too few columns: give a file and a label")
        parts = limits.parts_of(cells[file_column].strip())
        if not parts:
            raise DatasetRejected(f"{quote(origin)} names no file: give one, or remove the line")
        label = normalize_label(cells[label_column], origin=origin, max_length=limits.max_label_length)
        yield CsvRow(parts, label, origin)


def _column(columns: list[str], synonyms: frozenset[str], name: str) -> int:
    found = [index for index, column in enumerate(columns) if column in synonyms]
    if len(found) != 1:
        wanted = " or ".join(sorted(synonyms))
        fault = "several columns" if found else "no column"
        raise DatasetRejected(f"{quote(name)} has {fault} named {wanted}: name one in the first line")
    return found[0]


def annotate_from_csv(tree: FileTree, rows: list[CsvRow], *, table: DatasetFile | None = None) -> AnnotationSet:
    """What the rows say about the tree's files; files that no row names are left out, and said so."""
    exact = {m.parts: m for m in tree.members}
    similar = {tuple(map(to_nfc, m.parts)): m for m in tree.members}
    said: dict[PathParts, tuple[CsvRow, Annotation]] = {}
    for row in rows:
        member = exact.get(row.parts) or similar.get(tuple(map(to_nfc, row.parts)))
        if member is None or member == table:
            raise DatasetRejected(
                f"{quote(row.origin)} names {quote('/'.join(row.parts))}, which is not there: "
                "add the picture, or remove the line"
            )
        before, _ = said.setdefault(member.parts, (row, Annotation(row.label, member)))
        if before.label != row.label:
            raise DatasetRejected(
                f"{quote(row.origin)} calls {quote(member.name)} {quote(row.label)}, "
                f"and an earlier line calls it {quote(before.label)}: keep one"
            )
    unnamed = [m for m in tree.members if m.parts not in said and m != table]
    return AnnotationSet(
        claims=tuple(claim for _, claim in said.values()),
        labels=frozenset(row.label for row in rows),
        refusals=tuple(SkippedFile(m.name, "not named in the table") for m in unnamed),
    )
