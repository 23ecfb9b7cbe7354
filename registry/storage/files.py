"""Files and chunks of bytes: read, hash, write durably, and create a file atomically."""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from registry.storage.store import StoreUnreachable

CHUNK_BYTES = 1024 * 1024
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_body(body: bytes | Path) -> BinaryIO:
    """Open bytes or a file for reading."""
    return io.BytesIO(body) if isinstance(body, bytes) else body.open("rb")


def iter_chunks(file: BinaryIO, size_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the rest of the file in chunks of that size; the last may be shorter."""
    while chunk := file.read(size_bytes):
        yield chunk


def sha256_hex(chunks: Iterable[bytes]) -> str:
    """Return the SHA-256 of the chunks in lower hexadecimal."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def write_all(descriptor: int, chunk: bytes) -> None:
    """Write the whole chunk unbuffered, so that a full disk raises here and not when the file is closed."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def create_atomically(path: Path, chunks: Iterable[bytes]) -> None:
    """Create a private file with its whole content, on disk; FileExistsError, and no change, if the path exists."""
    temporary = temporary_path(path)
    try:
        descriptor = os.open(temporary, _CREATE, 0o600)
        try:
            for chunk in chunks:
                write_all(descriptor, chunk)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, path, follow_symlinks=False)  # a rename would replace an existing file
    finally:
        temporary.unlink(missing_ok=True)


def write_verified(chunks: Iterable[bytes], digest: str, path: Path) -> bool:
    """Write the chunks to the path if they have the digest; otherwise return False and leave the path unchanged."""
    temporary = temporary_path(path)  # so that the path never holds a part, even after a kill
    with _translate_write_errors(path):
        descriptor = os.open(temporary, _CREATE, 0o600)
    hashed = hashlib.sha256()
    try:
        for chunk in chunks:
            hashed.update(chunk)
            with _translate_write_errors(path):
                write_all(descriptor, chunk)
        if hashed.hexdigest() != digest:
            return False
        with _translate_write_errors(path):
            temporary.replace(path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    return True


def temporary_path(path: Path) -> Path:
    """Return a fresh hidden path beside the path, which contains the path's name."""
    return path.with_name(f".{path.name}.{uuid4().hex}.part")


@contextmanager
def _translate_write_errors(path: Path) -> Iterator[None]:
    # Around the writes alone: the caller translates errors that the chunks raise.
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreUnreachable(f"{path.name} cannot be written ({reason}): check its folder and disk") from error
