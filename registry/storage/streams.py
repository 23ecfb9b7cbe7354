"""The two ways in which bytes are given and taken, as a whole or by a file; each is hashed on the way."""

import hashlib
import io
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from registry.storage.errors import StoreUnreachable

CHUNK_BYTES = 1024 * 1024


@contextmanager
def open_body(body: bytes | Path) -> Iterator[BinaryIO]:
    """The body at its beginning, to be read in pieces, never as a whole."""
    with io.BytesIO(body) if isinstance(body, bytes) else body.open("rb") as file:
        yield file


def iter_chunks(file: BinaryIO, size_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """What is left of the file, in pieces of that size; the last may be shorter."""
    while piece := file.read(size_bytes):
        yield piece


def sha256_hex(pieces: Iterable[bytes]) -> str:
    """The SHA-256 of the pieces, in lower hexadecimal."""
    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def write_all(descriptor: int, piece: bytes) -> None:
    """The whole piece is written, at once and not when a buffer is closed, so that a full disk is told here."""
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]


def write_verified(pieces: Iterable[bytes], digest: str, path: Path) -> bool:
    """The pieces in a file at the path if they have the digest; otherwise False, and the path is not touched."""
    # Another name first: whoever finds the path later, even after a kill, finds it whole and checked.
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    with _told(path):
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    hashed = hashlib.sha256()
    try:
        for piece in pieces:
            hashed.update(piece)
            with _told(path):
                write_all(descriptor, piece)
        if hashed.hexdigest() != digest:
            return False
        with _told(path):
            unfinished.replace(path)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            unfinished.unlink()
    return True


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreUnreachable(f"{path.name} cannot be fetched ({reason}): mend the folder it should lie in") from error
