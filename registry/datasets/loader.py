"""The one door to labelled pictures from strangers: folders, archives and tables in, checked samples out."""

import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from registry.datasets.annotations import AnnotationSet
from registry.datasets.csv_labels import annotate_from_csv, read_csv
from registry.datasets.file_tree import FileTree, PathParts
from registry.datasets.filetype import HEAD_BYTES, FileType, detect_file_type
from registry.datasets.folder_reader import read_folder, read_listed_files
from registry.datasets.label_layouts import annotate
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits, SizeMeter
from registry.datasets.member_names import quote
from registry.datasets.sample import Dataset
from registry.datasets.tar_reader import read_tar
from registry.datasets.unpack_dir import UnpackDir
from registry.datasets.validate import Unreadable, reject_nested_archives, validate
from registry.datasets.zip_reader import read_zip
from registry.errors import DatasetRejected

READ_HERE = "give a folder, a zip, a tar (also .gz, .bz2, .xz) or a CSV in UTF-8"


@contextmanager
def open_dataset(
    path: Path,
    *,
    scratch: Path | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: Unreadable = "refuse",
) -> Iterator[Dataset]:
    """The checked samples at `path`, whose files are there until the context is left.

    Archives are unpacked into a private folder below `scratch` (by default the system's temporary folder),
    which is gone afterwards, whatever happens; folders are read in place. `within` picks a subfolder.
    Raises CollectionRefused, or its subclass LimitExceeded, and then nothing is left behind.
    """
    picked = limits.parts_of(within) if within else ()
    if is_csv(path):
        if picked:
            raise DatasetRejected(f"{quote(path.name)} is a table, which has no subfolders: leave out `within`")
        yield validate(_label_by_file(path, limits), limits, unreadable=unreadable)
    else:
        with open_file_tree(path, scratch=scratch, limits=limits, picked=picked) as tree:
            # Whoever picks a folder has said where the classes are.
            yield validate_tree(tree, limits, unwrap=not picked, unreadable=unreadable)


@contextmanager
def open_file_tree(
    path: Path, *, scratch: Path | None, limits: DatasetLimits, picked: PathParts = ()
) -> Iterator[FileTree]:
    """The files of the folder or archive at `path`, below what is picked, until the context is left."""
    kind, size_bytes = _look_at(path)
    if kind == "folder":
        yield read_folder(path, SizeMeter(limits), picked)
        return
    with _private_folder(scratch) as folder:
        yield _unpack(path, kind, folder, SizeMeter(limits, packed_bytes=size_bytes), picked)


def is_csv(path: Path) -> bool:
    """Whether the path is neither a folder nor an archive; what is none of the three is refused."""
    return _look_at(path)[0] == "other"


def validate_tree(tree: FileTree, limits: DatasetLimits, *, unwrap: bool, unreadable: Unreadable) -> Dataset:
    """The tree's samples by what it says of their labels, each decoded."""
    reject_nested_archives(tree)
    return validate(annotate(tree, limits, unwrap=unwrap), limits, unreadable=unreadable)


def _private_folder(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    try:
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=scratch, prefix="collection-")
    except OSError as error:
        raise DatasetRejected(f"no scratch folder can be made ({error.strerror}): name another") from error


def _unpack(path: Path, kind: FileType, folder: str, meter: SizeMeter, picked: PathParts) -> FileTree:
    stash = UnpackDir(Path(folder), meter)
    try:
        if kind == "zip":
            return read_zip(path, stash, meter, picked)
        return read_tar(path, kind, stash, meter, picked)
    except OSError as error:
        reason = error.strerror or error
        raise DatasetRejected(
            f"{quote(path.name)} cannot be unpacked ({reason}): make room, or name another scratch folder"
        ) from error


def _look_at(path: Path) -> tuple[FileType | Literal["folder"], int]:
    """What there is to read, told by its content, and its size."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return "folder", 0
        if not stat.S_ISREG(status.st_mode):
            raise DatasetRejected(f"{quote(path.name)} is no ordinary file: {READ_HERE}")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise DatasetRejected(f"{quote(path.name)} cannot be opened ({error.strerror}): check the path") from error
    kind = detect_file_type(head)
    # Text has no NULs, unless it is UTF-16, of which the table's reader speaks.
    is_binary = b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if kind == "unread archive" or (kind == "other" and is_binary):
        raise DatasetRejected(f"{quote(path.name)} is of a kind that is not read: {READ_HERE}")
    return kind, status.st_size


def _label_by_file(path: Path, limits: DatasetLimits) -> AnnotationSet:
    """A table by itself speaks of the files that it names, and of nothing else in its folder."""
    meter = SizeMeter(limits)
    meter.check_file(path.name, path.stat().st_size)
    with path.open("rb") as file:
        rows = read_csv(file, path.name, limits)
    tree = read_listed_files(path.parent, (row.parts for row in rows), meter)
    reject_nested_archives(tree)
    return annotate_from_csv(tree, rows)
