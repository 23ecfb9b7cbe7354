"""Reads a plain folder in place; rejects links and special files, and copies nothing."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from registry.datasets.file_tree import DatasetFile, FileTree, FileTreeBuilder, PathParts, missing_folder
from registry.datasets.limits import SizeMeter
from registry.datasets.member_names import quote
from registry.errors import DatasetRejected


def read_folder(root: Path, meter: SizeMeter, within: PathParts = ()) -> FileTree:
    """Return the files below the folder, or below its subfolder `within`, without following any link."""
    base = root.joinpath(*within)
    if within and _mode_below(root, within) != stat.S_IFDIR:
        raise missing_folder("/".join(within), (entry.name for entry in _list_entries(root, root.name, meter)))
    builder = FileTreeBuilder(meter, within)
    total_bytes = 0
    pending = [(base, "/".join(within))]
    while pending:
        folder, prefix = pending.pop()
        for entry in _list_entries(folder, prefix or root.name, meter):
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_symlink():
                raise _link_error(name)
            parts = builder.check_name(name)
            if parts is None:
                continue
            if entry.is_dir(follow_symlinks=False):
                builder.add_folder(parts)
                pending.append((Path(entry.path), name))
                continue
            size_bytes = _regular_file_size(Path(entry.path), name)
            meter.check_file(name, size_bytes)
            total_bytes += size_bytes
            meter.check_total(name, total_bytes)
            builder.add_file(name, parts, Path(entry.path))
    return builder.build()


def read_listed_files(root: Path, names: Iterable[PathParts], meter: SizeMeter) -> FileTree:
    """Return only the named files below the folder; names without a file are left out."""
    builder = FileTreeBuilder(meter)
    for requested in sorted(set(names)):
        name = "/".join(requested)
        parts = builder.check_name(name)
        if parts is None or _mode_below(root, parts) in (None, stat.S_IFDIR):
            continue
        path = root.joinpath(*parts)
        size_bytes = _regular_file_size(path, name)
        meter.check_file(name, size_bytes)
        meter.count_bytes(name, size_bytes)
        builder.add_file(name, parts, path)
    return builder.build()


@contextmanager
def open_file(file: DatasetFile) -> Iterator[BinaryIO]:
    """Open the file for reading; a link or pipe that replaced it since the walk is rejected."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _open_error(file.name, error) from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _special_file_error(file.name)
        yield stream


def _list_entries(folder: Path, name: str, meter: SizeMeter) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            # One more than the limit is enough for the meter to reject the folder.
            return sorted(islice(entries, meter.limits.max_files + 1), key=lambda entry: entry.name)
    except OSError as error:
        raise _open_error(name, error) from error


def _mode_below(root: Path, parts: PathParts) -> int | None:
    """Return the file type bits of the path, or None if nothing is there; reject links on the way."""
    mode = None
    path = root
    for part in parts:
        path = path / part
        try:
            mode = stat.S_IFMT(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _open_error("/".join(parts), error) from error
        if mode == stat.S_IFLNK:
            raise _link_error("/".join(parts))
    return mode


def _regular_file_size(path: Path, name: str) -> int:
    try:
        status = path.lstat()
    except OSError as error:
        raise _open_error(name, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise _special_file_error(name)
    return status.st_size


def _link_error(name: str) -> DatasetRejected:
    return DatasetRejected(f"{quote(name)} is a link: put the file itself there")


def _special_file_error(name: str) -> DatasetRejected:
    return DatasetRejected(f"{quote(name)} is a device, pipe or socket, not a regular file: remove it")


def _open_error(name: str, error: OSError) -> DatasetRejected:
    reason = error.strerror or type(error).__name__
    return DatasetRejected(f"{quote(name)} cannot be opened ({reason}): check its permissions")
