"""Uploads as streams: a file in chunks, or a folder packed as a tar on the fly, whose size is known beforehand."""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from alacarte._client.errors import InvalidFolder

CHUNK_BYTES = 2**18

FilePath = str | os.PathLike[str]
OnProgress = Callable[[int, int], None]  # bytes sent, and bytes in all


@dataclass(frozen=True)
class TarMember:
    """A file of the folder, with its name in the tar."""

    path: Path
    name: str
    size_bytes: int


@dataclass(frozen=True)
class ArchiveStream:
    """An archive to send: its size, and its chunks, which can be read once."""

    size_bytes: int
    chunks: Iterator[bytes]

    def report(self, on_progress: OnProgress | None) -> Iterator[bytes]:
        """Yield the chunks; report zero at first, and each chunk when the next is read."""
        sent_bytes = 0
        if on_progress is not None:
            on_progress(sent_bytes, self.size_bytes)
        for chunk in self.chunks:
            yield chunk
            sent_bytes += len(chunk)
            if on_progress is not None:
                on_progress(sent_bytes, self.size_bytes)


@contextmanager
def open_archive(path: FilePath) -> Iterator[ArchiveStream]:
    """Open the archive at the path; a folder is packed while it is read."""
    path = Path(path)
    if path.is_dir():
        members = list_members(path)
        yield ArchiveStream(tar_size(members), pack(members, CHUNK_BYTES))
        return
    with path.open("rb") as file:
        yield ArchiveStream(os.fstat(file.fileno()).st_size, _read_chunks(file))


def list_members(folder: Path) -> list[TarMember]:
    """Return the files below the folder, sorted by name; hidden ones are skipped, and a link is refused."""
    members: list[TarMember] = []
    for parent, folders, files in os.walk(folder, onerror=_fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            path = Path(parent, name)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and not name.startswith("."):
                members.append(TarMember(path, path.relative_to(folder).as_posix(), status.st_size))
            elif stat.S_ISLNK(status.st_mode):
                raise InvalidFolder(f"{path} is a link: put the file itself there")
    return sorted(members, key=lambda member: member.name)


def tar_size(members: list[TarMember]) -> int:
    """Return the size of the tar of these files."""
    content_bytes = _content_size(members) + 2 * tarfile.BLOCKSIZE
    return -(-content_bytes // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def pack(members: list[TarMember], chunk_bytes: int) -> Iterator[bytes]:
    """Yield the tar in chunks; raise InvalidFolder if a file has changed since it was listed."""
    chunk = bytearray()
    for part in _tar_parts(members, chunk_bytes):
        chunk += part
        while len(chunk) >= chunk_bytes:
            yield bytes(chunk[:chunk_bytes])
            del chunk[:chunk_bytes]
    if chunk:
        yield bytes(chunk)


def _tar_parts(members: list[TarMember], chunk_bytes: int) -> Iterator[bytes]:
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
    yield bytes(tar_size(members) - _content_size(members))  # a tar ends in zeros


def _read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _content_size(members: list[TarMember]) -> int:
    return sum(len(_header(member)) + _padded(member.size_bytes) for member in members)


def _header(member: TarMember) -> bytes:
    """Build the header without the local owner and modification time, which the service need not know."""
    header = tarfile.TarInfo(member.name)
    header.size = member.size_bytes
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _changed(member: TarMember) -> InvalidFolder:
    return InvalidFolder(f"{member.path} changed while it was sent: send it again")


def _fail(error: OSError) -> None:
    raise error
