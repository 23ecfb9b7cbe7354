"""A folder as a tar, packed while it is sent: nothing is written here, and its size is known before."""

import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from alacarte._client.errors import FolderUnfit


@dataclass(frozen=True)
class Member:
    """A file of the folder, by the name that it has in the tar."""

    path: Path
    name: str
    size_bytes: int


def members_of(folder: Path) -> list[Member]:
    """The files below the folder in the order of their names; hidden ones stay here, and a link is refused."""
    found: list[Member] = []
    for place, folders, files in os.walk(folder, onerror=_fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            path = Path(place, name)
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode) and not name.startswith("."):
                found.append(Member(path, path.relative_to(folder).as_posix(), facts.st_size))
            elif stat.S_ISLNK(facts.st_mode):
                raise FolderUnfit(f"{path} is a link: put the file itself there")
    return sorted(found, key=lambda member: member.name)


def size_of_tar(members: list[Member]) -> int:
    """How many bytes the tar of these will have."""
    inner_bytes = _inner_size(members) + 2 * tarfile.BLOCKSIZE
    return -(-inner_bytes // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def tar_of(members: list[Member], chunk_bytes: int) -> Iterator[bytes]:
    """The tar in pieces of so many bytes at most; FolderUnfit if a file is not any more what it was."""
    chunk = bytearray()
    for part in _parts(members, chunk_bytes):
        chunk += part
        while len(chunk) >= chunk_bytes:
            yield bytes(chunk[:chunk_bytes])
            del chunk[:chunk_bytes]
    if chunk:
        yield bytes(chunk)


def _parts(members: list[Member], chunk_bytes: int) -> Iterator[bytes]:
    for member in members:
        yield _header(member)
        left_bytes = member.size_bytes
        with member.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != member.size_bytes:
                raise _changed(member)
            while left_bytes:
                part = file.read(min(left_bytes, chunk_bytes))
                if not part:
                    raise _changed(member)
                left_bytes -= len(part)
                yield part
        yield bytes(_padded(member.size_bytes) - member.size_bytes)
    yield bytes(size_of_tar(members) - _inner_size(members))  # a tar ends in zeros


def _inner_size(members: list[Member]) -> int:
    return sum(len(_header(member)) + _padded(member.size_bytes) for member in members)


def _header(member: Member) -> bytes:
    """Who owns the file here, and since when it is there, is nobody's business there."""
    header = tarfile.TarInfo(member.name)
    header.size = member.size_bytes
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _changed(member: Member) -> FolderUnfit:
    return FolderUnfit(f"{member.path} changed while it was sent: send it again")


def _fail(error: OSError) -> None:
    raise error
