"""The one door to labelled pictures from strangers: folders, archives and tables in, checked samples out."""

import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from registry.datasets.annotations import Labelling
from registry.datasets.csv_labels import label_by_table, read_table
from registry.datasets.file_tree import Parts, Tree
from registry.datasets.filetype import HEAD_BYTES, Kind, kind_of
from registry.datasets.folder_reader import read_folder, read_named
from registry.datasets.label_layouts import label_tree
from registry.datasets.limits import DEFAULT_LIMITS, Limits, Meter
from registry.datasets.member_names import shown
from registry.datasets.sample import Collection
from registry.datasets.tar_reader import read_tar
from registry.datasets.unpack_dir import Stash
from registry.datasets.validate import Unreadable, check, refuse_nested_archives
from registry.datasets.zip_reader import read_zip
from registry.errors import CollectionRefused

READ_HERE = "give a folder, a zip, a tar (also .gz, .bz2, .xz) or a CSV in UTF-8"


@contextmanager
def open_collection(
    path: Path,
    *,
    scratch: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: Unreadable = "refuse",
) -> Iterator[Collection]:
    """The checked samples at `path`, whose files are there until the context is left.

    Archives are unpacked into a private folder below `scratch` (by default the system's temporary folder),
    which is gone afterwards, whatever happens; folders are read in place. `within` picks a subfolder.
    Raises CollectionRefused, or its subclass LimitExceeded, and then nothing is left behind.
    """
    picked = limits.parts_of(within) if within else ()
    if is_table(path):
        if picked:
            raise CollectionRefused(f"{shown(path.name)} is a table, which has no subfolders: leave out `within`")
        yield check(_label_by_file(path, limits), limits, unreadable=unreadable)
    else:
        with open_tree(path, scratch=scratch, limits=limits, picked=picked) as tree:
            # Whoever picks a folder has said where the classes are.
            yield label_and_check(tree, limits, unwrap=not picked, unreadable=unreadable)


@contextmanager
def open_tree(path: Path, *, scratch: Path | None, limits: Limits, picked: Parts = ()) -> Iterator[Tree]:
    """The files of the folder or archive at `path`, below what is picked, until the context is left."""
    kind, size_bytes = _look_at(path)
    if kind == "folder":
        yield read_folder(path, Meter(limits), picked)
        return
    with _private_folder(scratch) as folder:
        yield _unpack(path, kind, folder, Meter(limits, packed_bytes=size_bytes), picked)


def is_table(path: Path) -> bool:
    """Whether the path is neither a folder nor an archive; what is none of the three is refused."""
    return _look_at(path)[0] == "other"


def label_and_check(tree: Tree, limits: Limits, *, unwrap: bool, unreadable: Unreadable) -> Collection:
    """The tree's samples by what it says of their labels, each decoded."""
    refuse_nested_archives(tree)
    return check(label_tree(tree, limits, unwrap=unwrap), limits, unreadable=unreadable)


def _private_folder(scratch: Path | None) -> tempfile.TemporaryDirectory[str]:
    try:
        if scratch is not None:
            scratch.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=scratch, prefix="collection-")
    except OSError as error:
        raise CollectionRefused(f"no scratch folder can be made ({error.strerror}): name another") from error


def _unpack(path: Path, kind: Kind, folder: str, meter: Meter, picked: Parts) -> Tree:
    stash = Stash(Path(folder), meter)
    try:
        if kind == "zip":
            return read_zip(path, stash, meter, picked)
        return read_tar(path, kind, stash, meter, picked)
    except OSError as error:
        reason = error.strerror or error
        raise CollectionRefused(
            f"{shown(path.name)} cannot be unpacked ({reason}): make room, or name another scratch folder"
        ) from error


def _look_at(path: Path) -> tuple[Kind | Literal["folder"], int]:
    """What there is to read, told by its content, and its size."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return "folder", 0
        if not stat.S_ISREG(status.st_mode):
            raise CollectionRefused(f"{shown(path.name)} is no ordinary file: {READ_HERE}")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise CollectionRefused(f"{shown(path.name)} cannot be opened ({error.strerror}): check the path") from error
    kind = kind_of(head)
    # Text has no NULs, unless it is UTF-16, of which the table's reader speaks.
    is_binary = b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if kind == "unread archive" or (kind == "other" and is_binary):
        raise CollectionRefused(f"{shown(path.name)} is of a kind that is not read: {READ_HERE}")
    return kind, status.st_size


def _label_by_file(path: Path, limits: Limits) -> Labelling:
    """A table by itself speaks of the files that it names, and of nothing else in its folder."""
    meter = Meter(limits)
    meter.check_file(path.name, path.stat().st_size)
    with path.open("rb") as file:
        rows = read_table(file, path.name, limits)
    tree = read_named(path.parent, (row.parts for row in rows), meter)
    refuse_nested_archives(tree)
    return label_by_table(tree, rows)
