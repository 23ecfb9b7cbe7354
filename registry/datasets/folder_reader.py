"""Reading a plain folder in place: what is a link or no ordinary file is refused, and nothing is copied."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from registry.datasets.file_tree import DatasetFile, FileTree, FileTreeBuilder, PathParts
from registry.datasets.limits import SizeMeter
from registry.datasets.member_names import quote
from registry.errors import DatasetRejected


def read_folder(root: Path, meter: SizeMeter, within: PathParts = ()) -> FileTree:
    """The files below the folder, or below one of its subfolders, found without following any link."""
    base = root.joinpath(*within)
    if within and _mode_below(root, within) != stat.S_IFDIR:
        held = ", ".join(quote(entry.name) for entry in _entries(root, root.name, meter)[:5]) or "nothing"
        raise DatasetRejected(f"there is no folder {quote('/'.join(within))} in the collection: it holds {held}")
    gathering = FileTreeBuilder(meter, within)
    gathered_bytes = 0
    waiting = [(base, "/".join(within))]
    while waiting:
        folder, prefix = waiting.pop()
        for entry in _entries(folder, prefix or root.name, meter):
            name = f"{prefix}/{entry.name}" if prefix else entry.name
            if entry.is_symlink():
                raise _link(name)
            parts = gathering.admit(name)
            if parts is None:
                continue
            if entry.is_dir(follow_symlinks=False):
                gathering.add_folder(parts)
                waiting.append((Path(entry.path), name))
                continue
            size_bytes = _size_of_regular(Path(entry.path), name)
            meter.check_file(name, size_bytes)
            gathered_bytes += size_bytes
            meter.check_total(name, gathered_bytes)
            gathering.add_file(name, parts, Path(entry.path))
    return gathering.tree()


def read_listed_files(root: Path, names: Iterable[PathParts], meter: SizeMeter) -> FileTree:
    """Only the named files below the folder; a name without a file is left out, for the caller to miss."""
    gathering = FileTreeBuilder(meter)
    for given in sorted(set(names)):
        name = "/".join(given)
        parts = gathering.admit(name)
        if parts is None or _mode_below(root, parts) in (None, stat.S_IFDIR):
            continue
        path = root.joinpath(*parts)
        size_bytes = _size_of_regular(path, name)
        meter.check_file(name, size_bytes)
        meter.take(name, size_bytes)
        gathering.add_file(name, parts, path)
    return gathering.tree()


@contextmanager
def open_file(member: DatasetFile) -> Iterator[BinaryIO]:
    """The member's bytes; a link or pipe that took the file's place since the walk is not followed."""
    try:
        descriptor = os.open(member.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unopened(member.name, error) from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _irregular(member.name)
        yield file


def _entries(folder: Path, name: str, meter: SizeMeter) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            # One more than the limit is enough for the meter to refuse the folder.
            return sorted(islice(entries, meter.limits.max_files + 1), key=lambda entry: entry.name)
    except OSError as error:
        raise _unopened(name, error) from error


def _mode_below(root: Path, parts: PathParts) -> int | None:
    """The kind of file that the parts lead to, or None; a link on the way is refused."""
    mode = None
    path = root
    for part in parts:
        path = path / part
        try:
            mode = stat.S_IFMT(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unopened("/".join(parts), error) from error
        if mode == stat.S_IFLNK:
            raise _link("/".join(parts))
    return mode


def _size_of_regular(path: Path, name: str) -> int:
    try:
        status = path.lstat()
    except OSError as error:
        raise _unopened(name, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise _irregular(name)
    return status.st_size


def _link(name: str) -> DatasetRejected:
    return DatasetRejected(f"{quote(name)} is a link: put the file itself there")


def _irregular(name: str) -> DatasetRejected:
    return DatasetRejected(f"{quote(name)} is no ordinary file: remove it")


def _unopened(name: str, error: OSError) -> DatasetRejected:
    return DatasetRejected(f"{quote(name)} cannot be opened: {error.strerror or type(error).__name__}")
