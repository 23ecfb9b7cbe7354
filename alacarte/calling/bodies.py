"""Files on their way to the service: read piece by piece, never held in memory as a whole."""

import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHUNK_BYTES = 2**18

Sent = Callable[[int, int], None]  # bytes that were sent, and bytes in all
Picture = str | os.PathLike[str] | bytes  # a file, or what is in one


def file_bytes(picture: Picture) -> bytes:
    """The bytes of a picture's file."""
    return picture if isinstance(picture, bytes) else Path(picture).read_bytes()


@contextmanager
def opened_archive(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """The archive at the path; a folder becomes one, in a file that is gone in the end."""
    path = Path(path)
    if not path.is_dir():
        with path.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile(prefix="alacarte-upload-") as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for inner in sorted(path.rglob("*")):
                if inner.is_file():
                    archive.add(inner, str(inner.relative_to(path)), filter=_anonymous)
        packed.seek(0)
        yield packed


def size_of(file: IO[bytes]) -> int:
    """How many bytes the open file has."""
    return os.fstat(file.fileno()).st_size


def chunks_of(file: IO[bytes], total_bytes: int, report: Sent | None) -> Iterator[bytes]:
    """The file piece by piece; each is reported once the wire has asked for the next."""
    sent_bytes = 0
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
        sent_bytes += len(chunk)
        if report is not None:
            report(sent_bytes, total_bytes)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who owns the files here is nobody's business there."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
