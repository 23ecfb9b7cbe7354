"""The files and folders of a dataset, and the private directory into which an archive's files are unpacked."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from registry.datasets.limits import SizeMeter
from registry.datasets.member_names import is_readme, is_system_file, quote, reject_unprintable, to_nfc
from registry.errors import DatasetRejected

CHUNK_BYTES = 64 * 1024

PathParts = tuple[str, ...]


@dataclass(frozen=True)
class DatasetFile:
    """One file: its name for messages, its path below the tree's root, and where its bytes are."""

    name: str
    parts: PathParts
    path: Path
    digest: str | None = None  # set when the bytes were unpacked; otherwise computed when they are read


@dataclass(frozen=True)
class FileTree:
    """Files and folders below one root."""

    files: tuple[DatasetFile, ...]
    folders: frozenset[PathParts]
    root: str = ""  # the root's own path inside the dataset, for suggestions

    def below(self, folder: str) -> "FileTree":
        """Return the tree below one of the root's folders."""
        return FileTree(
            files=tuple(replace(file, parts=file.parts[1:]) for file in self.files if file.parts[0] == folder),
            folders=frozenset(parts[1:] for parts in self.folders if parts[0] == folder and len(parts) > 1),
            root=f"{self.root}/{folder}" if self.root else folder,
        )

    def without_readmes(self) -> "FileTree":
        """Return the tree without READMEs, licences and the like at its root."""
        files = tuple(file for file in self.files if not (len(file.parts) == 1 and is_readme(file.parts[0])))
        return replace(self, files=files)


class FileTreeBuilder:
    """Builds a tree while an archive or folder is walked, and checks every name first."""

    def __init__(self, meter: SizeMeter, within: PathParts = ()) -> None:
        self._meter = meter
        self._within = tuple(to_nfc(part) for part in within)
        self._files: list[DatasetFile] = []
        self._folders: set[PathParts] = set()
        self._reserved: set[PathParts] = set()
        self._top_names: set[str] = set()

    def check_name(self, name: str) -> PathParts | None:
        """Return the path below `within`, or None for system files and for files outside `within`."""
        self._meter.count_file(name)
        parts = self._meter.limits.split_path(name)
        if not parts or is_system_file(parts):
            return None
        reject_unprintable(name)
        self._top_names.add(parts[0])
        depth = len(self._within)
        if tuple(to_nfc(part) for part in parts[:depth]) != self._within:
            return None
        return parts[depth:]

    def add_folder(self, parts: PathParts) -> None:
        """Add a folder and its parents."""
        while parts and parts not in self._folders:
            self._folders.add(parts)
            parts = parts[:-1]

    def reserve(self, name: str, parts: PathParts) -> None:
        """Reject a second file of the same name: it is unknown which of the two was meant."""
        if not parts or parts in self._reserved:
            raise DatasetRejected(f"{quote(name)} occurs twice, or is also a folder: pack it once")
        self._reserved.add(parts)

    def add_file(self, name: str, parts: PathParts, path: Path, digest: str | None = None) -> None:
        """Add a file and its parent folders."""
        self.add_folder(parts[:-1])
        self._files.append(DatasetFile(name=name, parts=parts, path=path, digest=digest))

    def build(self) -> FileTree:
        """Return the tree; reject the dataset if it has no folder `within`."""
        root = "/".join(self._within)
        if self._within and not self._files and not self._folders:
            raise missing_folder(root, self._top_names)
        return FileTree(tuple(self._files), frozenset(self._folders), root)


def missing_folder(folder: str, top_names: Iterable[str]) -> DatasetRejected:
    """Return the error for a subfolder that the dataset does not have."""
    present = ", ".join(quote(name) for name in sorted(top_names)[:5]) or "nothing"
    return DatasetRejected(f"the dataset has no folder {quote(folder)}; at its top level it has {present}")


class UnpackDir:
    """Files in one directory, each named by the digest of its bytes; names from the archive are never used."""

    def __init__(self, folder: Path, meter: SizeMeter) -> None:
        self._folder = folder
        self._meter = meter

    def write(self, name: str, chunks: Iterable[bytes]) -> tuple[Path, str]:
        """Write the chunks to a file and return it with its digest; equal bytes share one file."""
        incoming = self._folder / "incoming"
        hashed = hashlib.sha256()
        size_bytes = 0
        with incoming.open("wb") as file:
            for chunk in chunks:
                size_bytes += len(chunk)
                self._meter.check_file(name, size_bytes)
                hashed.update(chunk)
                file.write(chunk)
        digest = hashed.hexdigest()
        return incoming.replace(self._folder / digest), digest
