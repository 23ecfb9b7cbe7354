"""Taking a body from the wire onto the disk, within its limit, before anybody looks inside."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from registry.errors import LimitExceeded
from registry.storage.files import write_all
from registry.storage.scratch import ScratchUnavailable


@dataclass(frozen=True)
class ReceivedBody:
    """What came in."""

    size_bytes: int
    digest: str  # sha256, hexadecimal


def receive_body(chunks: Iterable[bytes], path: Path, max_bytes: int) -> ReceivedBody:
    """Streams the chunks into a new file of at most so many bytes; nothing is left of one that fails."""
    hashed = hashlib.sha256()
    size_bytes = 0
    with _told():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > max_bytes:
                raise LimitExceeded(f"more than {max_bytes} bytes: split the collection, and add the rest later")
            hashed.update(chunk)
            with _told():
                write_all(descriptor, chunk)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
    return ReceivedBody(size_bytes, hashed.hexdigest())


@contextmanager
def _told() -> Iterator[None]:
    # Around the disk alone: what goes wrong on the wire is the business of who reads from it.
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ScratchUnavailable(f"the upload cannot be kept ({reason}): make room in the scratch folder") from error
