"""Streams the body of an upload to a scratch file, within a size limit."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.errors import LimitExceeded
from registry.storage.files import write_all
from registry.storage.scratch import ScratchUnavailable


def receive_body(chunks: Iterable[bytes], path: Path, max_bytes: int) -> None:
    """Write the chunks to a new file of at most `max_bytes`; on failure the file is removed."""
    size_bytes = 0
    with _translate_disk_errors():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > max_bytes:
                raise LimitExceeded(f"more than {max_bytes} bytes: split the dataset, and add the rest later")
            with _translate_disk_errors():
                write_all(descriptor, chunk)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


@contextmanager
def _translate_disk_errors() -> Iterator[None]:
    # Only around disk operations: errors of the connection belong to its reader.
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ScratchUnavailable(
            f"the upload cannot be written to the scratch folder ({reason}): make room there"
        ) from error
