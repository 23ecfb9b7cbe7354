"""Reading a tar, compressed or not, in one pass: every member is checked, the wanted ones are stashed."""

import struct
import tarfile
from pathlib import Path
from typing import IO, cast

from registry.datasets.file_tree import FileTree, FileTreeBuilder, PathParts
from registry.datasets.filetype import FileType
from registry.datasets.limits import SizeMeter
from registry.datasets.member_names import describe_error, quote
from registry.datasets.tar_decompress import TarStream
from registry.datasets.unpack_dir import UnpackDir
from registry.errors import DatasetRejected

END_MARK = bytes(tarfile.BLOCKSIZE)

# What tarfile raises, beside its own errors, over headers that were made to hurt.
DAMAGE = (tarfile.TarError, ValueError, OverflowError, LookupError, TypeError, struct.error, RecursionError)


def read_tar(path: Path, kind: FileType, stash: UnpackDir, meter: SizeMeter, within: PathParts = ()) -> FileTree:
    """Unpacks the wanted files of a tar that may come from anyone; nothing is extracted by its name."""
    gathering = FileTreeBuilder(meter, within)
    with path.open("rb") as file:
        stream = TarStream(file, kind, meter)
        archive: tarfile.TarFile | None = None
        while True:
            stream.expect_header()
            try:
                archive = archive or _opened(stream)
                info = archive.next()
            except DAMAGE as error:
                raise DatasetRejected(
                    f"no readable tar after {quote(stream.member)} ({describe_error(error)}): pack it again"
                ) from error
            if info is None:
                break
            # tarfile would keep all headers that it ever saw.
            archive.members.clear()  # type: ignore[attr-defined]  # typeshed does not know it
            archive.pax_headers = {}
            _take(info, stream, gathering, stash, meter)
        _refuse_unfinished(stream)
    return gathering.tree()


def _opened(stream: TarStream) -> tarfile.TarFile:
    # Inflated has all of IO that reading asks for.
    return tarfile.TarFile(fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape")


def _take(
    info: tarfile.TarInfo, stream: TarStream, gathering: FileTreeBuilder, stash: UnpackDir, meter: SizeMeter
) -> None:
    stream.member = info.name
    parts = gathering.admit(info.name)
    if info.isdir():
        if parts is not None:
            gathering.add_folder(parts)
        return
    if not info.isreg() or info.issparse():
        raise DatasetRejected(f"{quote(info.name)} is a link, device or pipe: pack ordinary files only")
    if info.size < 0 or stream.tell() != info.offset_data:
        raise DatasetRejected(f"the header of {quote(info.name)} is damaged: pack the archive again")
    if parts is None:
        return
    gathering.claim(info.name, parts)
    meter.check_file(info.name, info.size)
    kept, digest = stash.keep(info.name, stream.chunks(info.size))
    gathering.add_file(info.name, parts, kept, digest)


def _refuse_unfinished(stream: TarStream) -> None:
    """A tar that just stops, or goes on with something else after its end, may have lost pictures."""
    if stream.last_read != END_MARK:
        raise DatasetRejected(f"the archive stops or is damaged after {quote(stream.member)}: pack it again")
    for chunk in stream.rest():
        if chunk.count(0) != len(chunk):
            raise DatasetRejected(
                f"the archive goes on after its end mark, behind {quote(stream.member)}: pack it as one tar"
            )
