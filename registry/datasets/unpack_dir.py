"""The private folder into which an archive's members are streamed: one file per content."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from registry.datasets.limits import SizeMeter

CHUNK_BYTES = 64 * 1024


class UnpackDir:
    """Files in one folder, each named by the digest of its bytes; members' names never reach it."""

    def __init__(self, folder: Path, meter: SizeMeter) -> None:
        self._folder = folder
        self._meter = meter

    def keep(self, name: str, chunks: Iterable[bytes]) -> tuple[Path, str]:
        """Writes the chunks and returns the file and its digest; the same bytes are kept once."""
        incoming = self._folder / "incoming"
        hashed = hashlib.sha256()
        size_bytes = 0
        with incoming.open("wb") as file:
            for chunk in chunks:
                size_bytes += len(chunk)
                self._meter.check_file(name, size_bytes)
                hashed.update(chunk)
                file.write(chunk)
        digest = hashed.hexdigest()
        return incoming.replace(self._folder / digest), digest
