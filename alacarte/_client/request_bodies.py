"""Files on their way to the service: read piece by piece, never held in memory as a whole."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from alacarte._client.tar_stream import members_of, size_of_tar, tar_of

CHUNK_BYTES = 2**18

Sent = Callable[[int, int], None]  # bytes that were sent, and bytes in all
Picture = str | os.PathLike[str] | bytes  # a file, or what is in one


@dataclass(frozen=True)
class Archive:
    """An archive to be sent: how large it is, and its pieces, which can be had once."""

    size_bytes: int
    chunks: Iterator[bytes]

    def reported(self, report: Sent | None) -> Iterator[bytes]:
        """The pieces; each is reported once the wire has asked for the next, and none before the first."""
        sent_bytes = 0
        if report is not None:
            report(sent_bytes, self.size_bytes)
        for chunk in self.chunks:
            yield chunk
            sent_bytes += len(chunk)
            if report is not None:
                report(sent_bytes, self.size_bytes)


def file_bytes(picture: Picture) -> bytes:
    """The bytes of a picture's file."""
    return picture if isinstance(picture, bytes) else Path(picture).read_bytes()


@contextmanager
def opened_archive(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """The archive at the path; a folder becomes one on its way."""
    path = Path(path)
    if path.is_dir():
        members = members_of(path)
        yield Archive(size_of_tar(members), tar_of(members, CHUNK_BYTES))
        return
    with path.open("rb") as file:
        yield Archive(os.fstat(file.fileno()).st_size, _chunks_of(file))


def _chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
