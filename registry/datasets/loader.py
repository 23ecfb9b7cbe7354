"""Opens an untrusted dataset: folders, archives and CSV files in, validated pictures out."""

import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from alacarte.api.literals import UnreadablePolicy
from registry.datasets.csv_labels import annotate_from_csv, read_csv
from registry.datasets.dataset import AnnotationSet, Dataset
from registry.datasets.file_tree import FileTree, PathParts, UnpackDir
from registry.datasets.filetype import HEAD_BYTES, FileType, detect_file_type
from registry.datasets.folder_reader import read_folder, read_listed_files
from registry.datasets.label_layouts import annotate
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits, SizeMeter
from registry.datasets.member_names import quote
from registry.datasets.tar_reader import read_tar
from registry.datasets.validate import reject_nested_archives, validate
from registry.datasets.zip_reader import read_zip
from registry.errors import DatasetRejected

SUPPORTED = "give a folder, a zip, a tar (also .gz, .bz2, .xz) or a CSV in UTF-8"


@contextmanager
def open_dataset(
    path: Path,
    *,
    scratch: Path | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: UnreadablePolicy = "refuse",
) -> Iterator[Dataset]:
    """Yield the validated pictures at `path`; their files exist until the block ends.

    Archives are unpacked into a private folder below `scratch` (by default the system's temporary folder), which is
    always removed afterwards; folders are read in place. `within` selects a subfolder.
    Raises DatasetRejected, or its subclass LimitExceeded, and then leaves nothing behind.
    """
    selected = limits.split_path(within) if within else ()
    if is_csv(path):
        if selected:
            raise DatasetRejected(f"{quote(path.name)} is a CSV, which has no subfolders: leave out `within`")
        yield validate(_annotate_from_csv_file(path, limits), limits, unreadable=unreadable)
    else:
        with open_file_tree(path, scratch=scratch, limits=limits, within=selected) as tree:
            # `within` already says where the class folders are.
            yield validate_tree(tree, limits, unwrap=not selected, unreadable=unreadable)


@contextmanager
def open_file_tree(
    path: Path, *, scratch: Path | None, limits: DatasetLimits, within: PathParts = ()
) -> Iterator[FileTree]:
    """Yield the files of the folder or archive at `path`, below `within`, until the block ends."""
    file_type, size_bytes = _inspect(path)
    if file_type == "folder":
        yield read_folder(path, SizeMeter(limits), within)
        return
    with _private_folder(scratch) as folder:
        yield _unpack(path, file_type, folder, SizeMeter(limits, packed_bytes=size_bytes), within)


def is_csv(path: Path) -> bool:
    """Whether the path is a file other than an archive, to be read as CSV; rejects unsupported files."""
    return _inspect(path)[0] == "other"


def validate_tree(tree: FileTree, limits: DatasetLimits, *, unwrap: bool, unreadable: UnreadablePolicy) -> Dataset:
    """Annotate the tree's files and validate every picture."""
    reject_nested_archives(tree)
    return validate(annotate(tree, limits, unwrap=unwrap), limits, unreadable=unreadable)


def _private_folder(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    try:
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=scratch, prefix="dataset-")
    except OSError as error:
        raise DatasetRejected(f"no scratch folder can be made ({error.strerror}): name another") from error


def _unpack(path: Path, file_type: FileType, folder: str, meter: SizeMeter, within: PathParts) -> FileTree:
    unpack_dir = UnpackDir(Path(folder), meter)
    try:
        if file_type == "zip":
            return read_zip(path, unpack_dir, meter, within)
        return read_tar(path, file_type, unpack_dir, meter, within)
    except OSError as error:
        reason = error.strerror or error
        raise DatasetRejected(
            f"{quote(path.name)} cannot be unpacked ({reason}): make room, or name another scratch folder"
        ) from error


def _inspect(path: Path) -> tuple[FileType | Literal["folder"], int]:
    """Return the type of what is at the path, detected by its content, and its size."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return "folder", 0
        if not stat.S_ISREG(status.st_mode):
            raise DatasetRejected(f"{quote(path.name)} is not a regular file: {SUPPORTED}")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise DatasetRejected(f"{quote(path.name)} cannot be opened ({error.strerror}): check the path") from error
    file_type = detect_file_type(head)
    # Text has no NUL bytes, except in UTF-16, for which `read_csv` has a better message.
    is_binary = b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if file_type == "unsupported archive" or (file_type == "other" and is_binary):
        raise DatasetRejected(f"{quote(path.name)} has an unsupported type: {SUPPORTED}")
    return file_type, status.st_size


def _annotate_from_csv_file(path: Path, limits: DatasetLimits) -> AnnotationSet:
    """Annotate the files that a CSV names, and no other file in its folder."""
    meter = SizeMeter(limits)
    meter.check_file(path.name, path.stat().st_size)
    with path.open("rb") as file:
        rows = read_csv(file, path.name, limits)
    tree = read_listed_files(path.parent, (row.parts for row in rows), meter)
    reject_nested_archives(tree)
    return annotate_from_csv(tree, rows)
