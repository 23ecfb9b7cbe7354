"""Labels from a CSV that names each picture's file and label."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from registry.datasets.dataset import Annotation, AnnotationSet, SkippedFile
from registry.datasets.file_tree import DatasetFile, FileTree, PathParts
from registry.datasets.limits import DatasetLimits
from registry.datasets.member_names import describe_error, normalize_label, quote, to_nfc
from registry.errors import DatasetRejected, LimitExceeded

FILE_COLUMNS = frozenset({"file", "filename", "path", "image"})
LABEL_COLUMNS = frozenset({"label", "class", "target"})


@dataclass(frozen=True)
class CsvRow:
    """One validated row of the CSV."""

    parts: PathParts
    label: str
    origin: str  # file and line, for messages


def read_csv(file: BinaryIO, name: str, limits: DatasetLimits) -> list[CsvRow]:
    """Return the rows; the first error rejects the CSV and names the line."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        return list(_read_rows(text, name, limits))
    except UnicodeDecodeError as error:
        raise DatasetRejected(f"{quote(name)} is not UTF-8 text: save the CSV as UTF-8") from error
    except csv.Error as error:
        raise DatasetRejected(f"{quote(name)} is not a valid CSV ({describe_error(error)}): save it again") from error
    finally:
        text.detach()  # the file belongs to the caller


def _read_rows(text: io.TextIOWrapper, name: str, limits: DatasetLimits) -> Iterator[CsvRow]:
    header = text.readline()
    # Spreadsheets write semicolons or tabs in many countries.
    reader = csv.reader(chain([header], text), delimiter=max(",;\t", key=header.count), strict=True)
    columns = [cell.strip().casefold() for cell in next(reader, [])]
    file_column = _find_column(columns, FILE_COLUMNS, name)
    label_column = _find_column(columns, LABEL_COLUMNS, name)
    for count, cells in enumerate(filter(None, reader), start=1):
        if count > limits.max_files:
            raise LimitExceeded(f"{quote(name)} has more than {limits.max_files} rows: split the dataset")
        origin = f"{name}, line {reader.line_num}"
        if len(cells) <= max(file_column, label_column):
            raise DatasetRejected(f"{quote(origin)} has too few columns: give a file and a label")
        parts = limits.split_path(cells[file_column].strip())
        if not parts:
            raise DatasetRejected(f"{quote(origin)} names no file: give one, or remove the line")
        label = normalize_label(cells[label_column], origin=origin, max_length=limits.max_label_length)
        yield CsvRow(parts, label, origin)


def _find_column(columns: list[str], synonyms: frozenset[str], name: str) -> int:
    matches = [index for index, column in enumerate(columns) if column in synonyms]
    if len(matches) != 1:
        count = "several columns" if matches else "no column"
        allowed = " or ".join(sorted(synonyms))
        raise DatasetRejected(f"{quote(name)} has {count} named {allowed}: name exactly one in the first line")
    return matches[0]


def annotate_from_csv(tree: FileTree, rows: list[CsvRow], *, csv_file: DatasetFile | None = None) -> AnnotationSet:
    """Return the annotations in the rows; files that no row names are ignored."""
    by_path = {file.parts: file for file in tree.files}
    by_nfc_path = {tuple(map(to_nfc, file.parts)): file for file in tree.files}
    annotated: dict[PathParts, Annotation] = {}
    for row in rows:
        file = by_path.get(row.parts) or by_nfc_path.get(tuple(map(to_nfc, row.parts)))
        if file is None or file == csv_file:
            raise DatasetRejected(
                f"{quote(row.origin)} names {quote('/'.join(row.parts))}, which is not in the dataset: "
                "add the picture, or remove the line"
            )
        earlier = annotated.setdefault(file.parts, Annotation(row.label, file))
        if earlier.label != row.label:
            raise DatasetRejected(
                f"{quote(row.origin)} labels {quote(file.name)} as {quote(row.label)}, "
                f"but an earlier line labels it {quote(earlier.label)}: keep one"
            )
    unnamed = [file for file in tree.files if file.parts not in annotated and file != csv_file]
    return AnnotationSet(
        annotations=tuple(annotated.values()),
        labels=frozenset(row.label for row in rows),
        ignored=tuple(SkippedFile(file.name, "not named in the CSV") for file in unnamed),
    )
