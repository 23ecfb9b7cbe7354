"""Reading a tar, compressed or not, in one pass: every member is checked, the wanted ones are stashed."""

import struct
import tarfile
from pathlib import Path
from typing import IO, cast

from registry.datasets.file_tree import Gathering, Parts, Tree
from registry.datasets.filetype import Kind
from registry.datasets.limits import Meter
from registry.datasets.member_names import shown, told
from registry.datasets.tar_decompress import Inflated
from registry.datasets.unpack_dir import Stash
from registry.errors import CollectionRefused

END_MARK = bytes(tarfile.BLOCKSIZE)

# What tarfile raises, beside its own errors, over headers that were made to hurt.
DAMAGE = (tarfile.TarError, ValueError, OverflowError, LookupError, TypeError, struct.error, RecursionError)


def read_tar(path: Path, kind: Kind, stash: Stash, meter: Meter, within: Parts = ()) -> Tree:
    """Unpacks the wanted files of a tar that may come from anyone; nothing is extracted by its name."""
    gathering = Gathering(meter, within)
    with path.open("rb") as file:
        stream = Inflated(file, kind, meter)
        archive: tarfile.TarFile | None = None
        while True:
            stream.expect_header()
            try:
                archive = archive or _opened(stream)
                info = archive.next()
            except DAMAGE as error:
                raise CollectionRefused(
                    f"no readable tar after {shown(stream.member)} ({told(error)}): pack it again"
                ) from error
            if info is None:
                break
            # tarfile would keep all headers that it ever saw.
            archive.members.clear()  # type: ignore[attr-defined]  # typeshed does not know it
            archive.pax_headers = {}
            _take(info, stream, gathering, stash, meter)
        _refuse_unfinished(stream)
    return gathering.tree()


def _opened(stream: Inflated) -> tarfile.TarFile:
    # Inflated has all of IO that reading asks for.
    return tarfile.TarFile(fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape")


def _take(info: tarfile.TarInfo, stream: Inflated, gathering: Gathering, stash: Stash, meter: Meter) -> None:
    stream.member = info.name
    parts = gathering.admit(info.name)
    if info.isdir():
        if parts is not None:
            gathering.add_folder(parts)
        return
    if not info.isreg() or info.issparse():
        raise CollectionRefused(f"{shown(info.name)} is a link, device or pipe: pack ordinary files only")
    if info.size < 0 or stream.tell() != info.offset_data:
        raise CollectionRefused(f"the header of {shown(info.name)} is damaged: pack the archive again")
    if parts is None:
        return
    gathering.claim(info.name, parts)
    meter.check_file(info.name, info.size)
    kept, digest = stash.keep(info.name, stream.chunks(info.size))
    gathering.add_file(info.name, parts, kept, digest)


def _refuse_unfinished(stream: Inflated) -> None:
    """A tar that just stops, or goes on with something else after its end, may have lost pictures."""
    if stream.last_read != END_MARK:
        raise CollectionRefused(f"the archive stops or is damaged after {shown(stream.member)}: pack it again")
    for chunk in stream.rest():
        if chunk.count(0) != len(chunk):
            raise CollectionRefused(
                f"the archive goes on after its end mark, behind {shown(stream.member)}: pack it as one tar"
            )
