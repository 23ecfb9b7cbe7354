"""The files and folders of a collection, wherever their bytes lie, before anyone asks what they show."""

from dataclasses import dataclass, replace
from pathlib import Path

from registry.datasets.limits import SizeMeter
from registry.datasets.member_names import is_readme, is_system_file, quote, reject_unprintable, to_nfc
from registry.errors import DatasetRejected

PathParts = tuple[str, ...]


@dataclass(frozen=True)
class DatasetFile:
    """One file: its name for messages, its place below the tree's root, and where its bytes are."""

    name: str
    parts: PathParts
    path: Path
    digest: str | None = None  # known when the bytes were unpacked; else taken when they are read


@dataclass(frozen=True)
class FileTree:
    """Files and folders below one root."""

    members: tuple[DatasetFile, ...]
    folders: frozenset[PathParts]
    top: str = ""  # the root's own path inside the collection, for suggestions

    def below(self, folder: str) -> "FileTree":
        """The tree below one of the root's folders."""
        return FileTree(
            members=tuple(replace(m, parts=m.parts[1:]) for m in self.members if m.parts[0] == folder),
            folders=frozenset(parts[1:] for parts in self.folders if parts[0] == folder and len(parts) > 1),
            top=f"{self.top}/{folder}" if self.top else folder,
        )

    def without_documents(self) -> "FileTree":
        """The tree without the notes for people at its root."""
        members = tuple(m for m in self.members if not (len(m.parts) == 1 and is_readme(m.parts[0])))
        return replace(self, members=members)


class FileTreeBuilder:
    """Collects a tree while an archive or folder is walked; every name is checked here first."""

    def __init__(self, meter: SizeMeter, within: PathParts = ()) -> None:
        self._meter = meter
        self._within = tuple(to_nfc(part) for part in within)
        self._members: list[DatasetFile] = []
        self._folders: set[PathParts] = set()
        self._names: set[PathParts] = set()
        self._roots: set[str] = set()

    def admit(self, name: str) -> PathParts | None:
        """The parts below `within` of a checked name, or None for litter and for what lies elsewhere."""
        self._meter.count(name)
        parts = self._meter.limits.parts_of(name)
        if not parts or is_system_file(parts):
            return None
        reject_unprintable(name)
        self._roots.add(parts[0])
        depth = len(self._within)
        if tuple(to_nfc(part) for part in parts[:depth]) != self._within:
            return None
        return parts[depth:]

    def add_folder(self, parts: PathParts) -> None:
        """Keeps a folder and those above it."""
        while parts and parts not in self._folders:
            self._folders.add(parts)
            parts = parts[:-1]

    def claim(self, name: str, parts: PathParts) -> None:
        """Refuses a second file of the same name: which of the two was meant cannot be known."""
        if not parts or parts in self._names:
            raise DatasetRejected(f"{quote(name)} is there twice, or names a folder: pack it once")
        self._names.add(parts)

    def add_file(self, name: str, parts: PathParts, path: Path, digest: str | None = None) -> None:
        """Keeps a file whose name was claimed, and the folders above it."""
        self.add_folder(parts[:-1])
        self._members.append(DatasetFile(name=name, parts=parts, path=path, digest=digest))

    def tree(self) -> FileTree:
        """All that was gathered; an error if `within` names nothing."""
        top = "/".join(self._within)
        if self._within and not self._members and not self._folders:
            held = ", ".join(quote(root) for root in sorted(self._roots)[:5]) or "nothing"
            raise DatasetRejected(f"there is no folder {quote(top)} in the collection: it holds {held}")
        return FileTree(tuple(self._members), frozenset(self._folders), top)
