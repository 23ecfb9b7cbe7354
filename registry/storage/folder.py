"""Objects in a folder of this machine: complete, durable and never overwritten, also if the power fails."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from registry.storage.files import create_atomically, iter_chunks, open_body, sha256_hex, write_verified
from registry.storage.keys import InvalidKey, probe_key, validate_key, validate_prefix
from registry.storage.store import (
    ObjectDamaged,
    ObjectExists,
    ObjectMissing,
    RemovedCount,
    StoredItem,
    StoreUnreachable,
)

ATTEMPTS = 100  # how often removals may delete a directory while one put is writing to it
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.part")


class FolderStore:
    """The object store of a single machine: a key is a path below the root. Symbolic links are never followed."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    @property
    def name(self) -> str:
        """Return the name for messages: the last part of the folder's path."""
        return f"folder {self._root.name or '/'}"

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object durably; ObjectExists if the key has other bytes, no error if it has the same."""
        path = self._root / validate_key(key)
        with open_body(body) as file:
            for attempt in range(ATTEMPTS):
                if attempt:
                    file.seek(0)
                # A concurrent removal may delete the directory or the temporary file: then start again.
                with self._translate_errors(), suppress(FileNotFoundError):
                    self._make_folders(path.parent)
                    try:
                        create_atomically(path, iter_chunks(file))
                    except FileExistsError:
                        if not _has_same_bytes(path, file):
                            raise ObjectExists(key, self.name) from None
                    # Also if the object was there already: its writer may not have come this far.
                    self._sync_up(path.parent, missing_ok=False)
                    return
        raise StoreUnreachable(f"{key} in {self.name} is removed as fast as it is written: stop what removes it")

    def read(self, key: str, digest: str) -> bytes:
        """Return the bytes with this SHA-256; otherwise raise ObjectMissing or ObjectDamaged."""
        with self._translate_errors(), self._open_object(key) as file:
            content = file.read()
        if sha256_hex([content]) != digest:
            raise ObjectDamaged(key, self.name)
        return content

    def download(self, key: str, digest: str, path: Path) -> None:
        """Write the bytes to a file, verified as by `read`; on failure the path is unchanged."""
        with self._translate_errors(), self._open_object(key) as file:
            if not write_verified(iter_chunks(file), digest, path):
                raise ObjectDamaged(key, self.name)

    def list_objects(self, prefix: str) -> Iterator[StoredItem]:
        """Yield the visible objects, sorted by key."""
        return (item for item in self.list_all(prefix) if item.kind == "object")

    def list_all(self, prefix: str) -> Iterator[StoredItem]:
        """Yield everything: objects, temporary files, and whatever else is in the folder."""
        return self._list_all(validate_prefix(prefix))

    def remove(self, prefix: str) -> RemovedCount:
        """Remove durably whatever `list_all` would yield, and the directories that become empty."""
        folder = self._root / validate_prefix(prefix).rpartition("/")[0]
        items = size_bytes = 0
        with self._translate_errors():
            self._check_path(folder)
            for path, item in self._walk(prefix):
                with suppress(FileNotFoundError):
                    path.unlink()
                    items += 1
                    size_bytes += item.size_bytes
            if prefix.endswith("/") or not prefix:
                for directory, _, _ in os.walk(folder, topdown=False):
                    with suppress(FileNotFoundError):
                        if not self._remove_if_empty(Path(directory)):
                            _sync(Path(directory))
            while self._remove_if_empty(folder):
                folder = folder.parent
            # Also if nothing was left: an earlier removal may have been killed before it came this far.
            self._sync_up(folder, missing_ok=True)  # another removal may have deleted the directory
        return RemovedCount(items, size_bytes)

    def check(self) -> None:
        """Check that the folder can be written and deleted from; it is not created if it is missing."""
        probe = probe_key()
        self.put(probe, b"")
        self.remove(probe)

    def prepare(self) -> None:
        """Create the folder durably if it is missing."""
        with self._translate_errors():
            for folder in reversed([path for path in (self._root, *self._root.parents) if not path.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
                _sync(folder.parent)

    def _list_all(self, prefix: str) -> Iterator[StoredItem]:
        with self._translate_errors():
            self._check_path(self._root / prefix.rpartition("/")[0])
            for _, item in self._walk(prefix):
                yield item

    def _walk(self, prefix: str) -> Iterator[tuple[Path, StoredItem]]:
        """Yield the path and the item of everything under a prefix, sorted by key."""
        above, _, name = prefix.rpartition("/")
        for path in _list_files(self._root / above, is_recursive=not name):
            with suppress(FileNotFoundError):  # removed meanwhile
                item = self._item(path)
                if not name or item.key == prefix:
                    yield path, item

    def _item(self, path: Path) -> StoredItem:
        status = path.lstat()
        is_file = stat.S_ISREG(status.st_mode)
        size_bytes = status.st_size if is_file else 0
        if temporary := _TEMPORARY.fullmatch(path.name):
            key = path.with_name(temporary["name"]).relative_to(self._root).as_posix()
            return StoredItem(key, size_bytes, "unfinished")
        key = path.relative_to(self._root).as_posix()
        return StoredItem(key, size_bytes, "object" if is_file and _is_key(key) else "unfinished")

    @contextmanager
    def _open_object(self, key: str) -> Iterator[BinaryIO]:
        path = self._root / validate_key(key)
        self._check_path(path.parent)
        try:
            file = _open_regular_file(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissing(key, self.name) from error
        if file is None:
            raise ObjectDamaged(key, self.name)
        with file:
            yield file

    def _check_path(self, folder: Path) -> None:
        """Raise if the root is missing, since its disk may not be mounted, or if a link is on the way to the folder."""
        if not self._root.is_dir():
            raise self._root_missing()
        while folder != self._root:
            if folder.is_symlink():
                raise NotADirectoryError
            folder = folder.parent

    def _make_folders(self, folder: Path) -> None:
        """Create the missing directories between the root and the folder, private as the root is."""
        self._check_path(folder)
        below_root = folder.relative_to(self._root)
        for part in reversed((below_root, *below_root.parents[:-1])):
            with suppress(FileExistsError):
                (self._root / part).mkdir(mode=0o700)
        if not stat.S_ISDIR(folder.stat().st_mode):  # FileNotFoundError if it was removed meanwhile
            raise NotADirectoryError

    def _remove_if_empty(self, folder: Path) -> bool:
        """Return whether the directory is gone; the root always stays."""
        if folder == self._root:
            return False
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:  # not empty, or a mount point
            return False
        return True

    def _sync_up(self, folder: Path, *, missing_ok: bool) -> None:
        """Flush the entries of the directory and of all above it, up to the root."""
        for directory in (folder, *folder.parents):
            with suppress(*((FileNotFoundError, NotADirectoryError) if missing_ok else ())):
                _sync(directory)
            if directory == self._root:
                return

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if self._root.is_dir():
                raise  # something below the root was removed meanwhile: the caller handles it
            raise self._root_missing() from error
        except (NotADirectoryError, FileExistsError) as error:
            raise StoreUnreachable(
                f"{self.name} has a link or file where a folder should be: remove the link or file"
            ) from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreUnreachable(f"{self.name} has no space left: make room on its disk") from error
            reason = error.strerror or type(error).__name__
            raise StoreUnreachable(
                f"{self.name} cannot be used ({reason}): check its owner, its disk, and that the disk has hard links"
            ) from error

    def _root_missing(self) -> StoreUnreachable:
        return StoreUnreachable(f"there is no {self.name}: mount its disk, or create it with `alacarte db upgrade`")


def _list_files(folder: Path, *, is_recursive: bool) -> Iterator[Path]:
    """Yield what is in a directory, sorted as the keys are, and below it; links are not followed."""
    try:
        with os.scandir(folder) as scan:
            entries = [(entry, entry.is_dir(follow_symlinks=False)) for entry in scan]
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry, is_folder in sorted(entries, key=lambda pair: f"{pair[0].name}/" if pair[1] else pair[0].name):
        if not is_folder:
            yield Path(entry.path)
        elif is_recursive:
            yield from _list_files(Path(entry.path), is_recursive=True)


def _open_regular_file(path: Path) -> BinaryIO | None:
    """Open the file; return None if the path is a link, a directory or a pipe."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def _has_same_bytes(path: Path, file: BinaryIO) -> bool:
    existing = _open_regular_file(path)
    if existing is None:
        return False
    file.seek(0)
    with existing:
        return sha256_hex(iter_chunks(existing)) == sha256_hex(iter_chunks(file))


def _is_key(text: str) -> bool:
    try:
        validate_key(text)
    except InvalidKey:
        return False
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
