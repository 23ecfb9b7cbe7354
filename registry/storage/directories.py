"""Directories held open: each step goes by descriptor from the one before, so that no link is ever followed."""

import os
import re
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from registry.storage.keys import InvalidKey, validate_key
from registry.storage.store import StoredItem

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.part")


def unfinished_name(name: str) -> str:
    """A fresh name for a file while it is written, which tells whose file it will be."""
    return f".{name}.{uuid.uuid4().hex}.part"


def make_root(root: Path) -> None:
    """The root exists, and will after a crash."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)


@contextmanager
def opened_chain(root: Path, parts: Sequence[str], *, make: bool) -> Iterator[list[int]]:
    """Descriptors of the root and of the directories on the way down, for as far as they exist or are made.

    Raises NotADirectoryError where a link lies in the way, and, if they should be made, where a file does.
    """
    # The root itself may be a link: where it lies is the operator's choice.
    chain = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=chain[-1])
            try:
                chain.append(os.open(part, DIRECTORY_FLAGS, dir_fd=chain[-1]))
            except (FileNotFoundError, NotADirectoryError):
                # Below a file there is nothing; but behind a link there may be what should be here.
                if make or _is_link(part, chain[-1]):
                    raise
                break
        yield chain
    finally:
        for descriptor in reversed(chain):
            os.close(descriptor)


def sync(chain: Sequence[int]) -> None:
    """Every entry on the way to the last directory, and in it, is on the disk, whoever made or removed it."""
    for descriptor in reversed(chain):
        os.fsync(descriptor)


def walk(directory: int, prefix: str) -> Iterator[StoredItem]:
    """Everything below the directory, whose keys begin with the prefix, in the order of their keys."""
    for name, status in _entries(directory):
        if not stat.S_ISDIR(status.st_mode):
            yield _found(prefix, name, status)
            continue
        with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile
            child = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
            try:
                yield from walk(child, f"{prefix}{name}/")
            finally:
                os.close(child)


def named(directory: int, prefix: str, name: str) -> Iterator[StoredItem]:
    """What lies in the directory under exactly that name, and what should have become it."""
    key = prefix + name
    for other, status in _entries(directory):
        if not stat.S_ISDIR(status.st_mode) and (found := _found(prefix, other, status)).key == key:
            yield found


def remove_below(directory: int, prefix: str) -> Iterator[StoredItem]:
    """Removes everything below the directory, telling each thing after it is gone; `sync` is left to the caller."""
    for name, status in _entries(directory):
        if not stat.S_ISDIR(status.st_mode):
            yield from _unlinked(directory, prefix, name, status)
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            child = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
            try:
                yield from remove_below(child, f"{prefix}{name}/")
                if not remove_if_empty(name, directory):
                    os.fsync(child)
            finally:
                os.close(child)


def remove_named(directory: int, prefix: str, name: str) -> Iterator[StoredItem]:
    """Removes what `named` shows, telling each thing after it is gone; `sync` is left to the caller."""
    key = prefix + name
    for other, status in _entries(directory):
        if not stat.S_ISDIR(status.st_mode) and _found(prefix, other, status).key == key:
            yield from _unlinked(directory, prefix, other, status)


def remove_if_empty(name: str, directory: int) -> bool:
    """Whether the directory of that name is gone now; one that somebody has put something into stays."""
    try:
        os.rmdir(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _is_link(name: str, directory: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _unlinked(directory: int, prefix: str, name: str, status: os.stat_result) -> Iterator[StoredItem]:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
        yield _found(prefix, name, status)


def _entries(directory: int) -> list[tuple[str, os.stat_result]]:
    """What lies in a directory now, sorted as the keys are of which the names are a part."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda pair: f"{pair[0]}/" if stat.S_ISDIR(pair[1].st_mode) else pair[0])


def _found(prefix: str, name: str, status: os.stat_result) -> StoredItem:
    is_file = stat.S_ISREG(status.st_mode)
    size_bytes = status.st_size if is_file else 0
    if unfinished := _UNFINISHED.fullmatch(name):
        return StoredItem(prefix + unfinished["name"], size_bytes, "unfinished")
    return StoredItem(prefix + name, size_bytes, "object" if is_file and _is_key(prefix + name) else "unfinished")


def _is_key(text: str) -> bool:
    try:
        validate_key(text)
    except InvalidKey:
        return False
    return True
