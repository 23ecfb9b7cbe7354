"""Objects in a folder of this machine: whole, durable and never overwritten, also when the power fails."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from registry.storage.directories import (
    make_root,
    named,
    opened_chain,
    remove_below,
    remove_if_empty,
    remove_named,
    sync,
    unfinished_name,
    walk,
)
from registry.storage.errors import ObjectDamaged, ObjectExists, ObjectMissing, StoreUnreachable
from registry.storage.keys import probe_key, validate_key, validate_prefix
from registry.storage.store import RemovedCount, StoredItem
from registry.storage.streams import iter_chunks, open_body, sha256_hex, write_all, write_verified

# How often a removal may take a directory away from under one put.
ATTEMPTS = 100


class FolderStore:
    """The home of objects where nothing else is installed: a key is a path below the root."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    @property
    def name(self) -> str:
        """What to call the store before people: the folder's own name, without the machine's path."""
        return f"folder {self._root.name or '/'}"

    def put(self, key: str, body: bytes | Path) -> None:
        """Durable on return; ObjectExists if the key holds other bytes, silence if it holds the very same."""
        *parts, name = validate_key(key).split("/")
        with open_body(body) as file:
            for attempt in range(ATTEMPTS):
                if attempt:
                    file.seek(0)
                # A removal may take the directory, or the unfinished file, away at any moment: then it is made again.
                with self._told(), suppress(FileNotFoundError):
                    if not self._root.is_dir():  # its disk may be away: nothing is put where it would be mounted
                        raise self._rootless()
                    with opened_chain(self._root, parts, make=True) as chain:
                        if not self._place(chain[-1], name, file):
                            raise ObjectExists(key, self.name)
                        # Also after a put that found its bytes there: their writer may not have come this far.
                        sync(chain)
                        return
        raise StoreUnreachable(f"{key} in {self.name} is removed as fast as it is put: stop what removes it")

    def read(self, key: str, digest: str) -> bytes:
        """The bytes, whose SHA-256 is the digest; otherwise ObjectMissing or ObjectDamaged."""
        with self._told(), self._opened(key) as file:
            content = file.read()
        if sha256_hex([content]) != digest:
            raise ObjectDamaged(key, self.name)
        return content

    def download(self, key: str, digest: str, path: Path) -> None:
        """The bytes in a file, checked as by `read`; the path is not touched on failure."""
        with self._told(), self._opened(key) as file:
            if not write_verified(iter_chunks(file), digest, path):
                raise ObjectDamaged(key, self.name)

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """The visible objects, in the order of their keys."""
        return (found for found in self.list_all(prefix) if found.kind == "object")

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """All that lies there: objects, unfinished files, and whatever else somebody put there."""
        return self._list_all(*_split(prefix))

    def remove(self, prefix: str) -> RemovedCount:
        """Whatever `traces` would show is gone, durably, and so are the directories that it leaves empty."""
        parts, above, name = _split(prefix)
        removed = RemovedCount(0, 0)
        with self._told(), opened_chain(self._root, parts, make=False) as chain:
            if len(chain) == len(parts) + 1:
                removed = _total(remove_named(chain[-1], above, name) if name else remove_below(chain[-1], above))
            for part, directory in reversed(list(zip(parts, chain[:-1], strict=False))):
                if not remove_if_empty(part, directory):
                    break
            # Also when nothing was left: an earlier removal may have been killed before it came this far.
            sync(chain)
        return removed

    def check(self) -> None:
        """The folder can be written and emptied; it is not made if it is missing."""
        with self._told():
            if not self._root.is_dir():
                raise self._rootless()
        probe = probe_key()
        self.put(probe, b"")
        self.remove(probe)

    def prepare(self) -> None:
        """The folder exists, made now if it was missing."""
        with self._told():
            make_root(self._root)

    def _list_all(self, parts: list[str], above: str, name: str) -> Iterator[StoredItem]:
        with self._told(), opened_chain(self._root, parts, make=False) as chain:
            if len(chain) == len(parts) + 1:
                yield from named(chain[-1], above, name) if name else walk(chain[-1], above)

    def _place(self, directory: int, name: str, file: BinaryIO) -> bool:
        """Whether the file's bytes lie under the name now, put there by this call or before it."""
        unfinished = unfinished_name(name)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(unfinished, flags, 0o600, dir_fd=directory)
            try:
                for piece in iter_chunks(file):
                    write_all(descriptor, piece)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # A rename would replace what lies there; a second link to the file never does.
            os.link(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            file.seek(0)
            return _holds(directory, name, file)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=directory)
        return True

    @contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        *parts, name = validate_key(key).split("/")
        with opened_chain(self._root, parts, make=False) as chain:
            if len(chain) <= len(parts):
                raise ObjectMissing(key, self.name)
            try:
                file = _opened_regular(chain[-1], name)
            except FileNotFoundError as error:
                raise ObjectMissing(key, self.name) from error
        if file is None:
            raise ObjectDamaged(key, self.name)
        with file:
            yield file

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self._root.is_dir():
                raise  # not the root, but something that was removed meanwhile: the caller knows
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StoreUnreachable:
        if isinstance(error, FileNotFoundError):
            return self._rootless()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreUnreachable(f"{self.name} has no space left: make room on its disk")
        if isinstance(error, NotADirectoryError):
            return StoreUnreachable(f"something in {self.name} lies where a folder should: remove the link or file")
        reason = error.strerror or type(error).__name__
        return StoreUnreachable(
            f"{self.name} cannot be used ({reason}): check its owner, its disk, and that the disk has hard links"
        )

    def _rootless(self) -> StoreUnreachable:
        return StoreUnreachable(f"there is no {self.name}: mount its disk, or make it by `alacarte db upgrade`")


def _split(prefix: str) -> tuple[list[str], str, str]:
    """The directories of a prefix, the same as text, and the name within the last of them, or nothing for all."""
    *parts, name = validate_prefix(prefix).split("/")
    return parts, "".join(f"{part}/" for part in parts), name


def _opened_regular(directory: int, name: str) -> BinaryIO | None:
    """The file of that name, or None if it is a link or no ordinary file."""
    try:
        # Opening a pipe must not wait for its writer.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def _holds(directory: int, name: str, file: BinaryIO) -> bool:
    there = _opened_regular(directory, name)
    if there is None:
        return False
    with there:
        return sha256_hex(iter_chunks(there)) == sha256_hex(iter_chunks(file))


def _total(things: Iterable[StoredItem]) -> RemovedCount:
    count = size_bytes = 0
    for thing in things:
        count += 1
        size_bytes += thing.size_bytes
    return RemovedCount(count, size_bytes)
