"""The plain bytes of a file that may be compressed: read forward only, in counted and bounded pieces."""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from registry.datasets.filetype import FileType
from registry.datasets.limits import MIB, SizeMeter
from registry.datasets.member_names import describe_error, quote
from registry.datasets.unpack_dir import CHUNK_BYTES
from registry.errors import DatasetRejected, LimitExceeded

# A stranger's xz may ask for a dictionary of gigabytes; `xz -9` asks for 65 MiB.
XZ_MEMORY_BYTES = 128 * MIB
# tarfile holds a member's headers in memory as a whole, however long they claim to be.
HEADER_BYTES = 16 * 1024
# In some versions of Python, tarfile's time grows with the square of a header's longest run of digits.
ENDLESS_NUMBER = re.compile(rb"\d{256}")

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)


class _Xz(io.RawIOBase):
    """What lzma.open does, with a bound on the memory that the file may ask for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = self._fresh()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast(bytearray, buffer))
        while True:
            packed = b""
            if self._decompressor.eof:
                packed = self._next_stream()
                if not packed:
                    return 0
                self._decompressor = self._fresh()
            elif self._decompressor.needs_input:
                packed = self._file.read(CHUNK_BYTES)
                if not packed:
                    raise EOFError("ends too early")
            plain = self._decompressor.decompress(packed, max_length=len(target))
            if plain:
                target[: len(plain)] = plain
                return len(plain)

    def _next_stream(self) -> bytes:
        packed = self._decompressor.unused_data.lstrip(b"\0")  # streams may be padded with zeros
        while not packed:
            chunk = self._file.read(CHUNK_BYTES)
            if not chunk:
                return b""
            packed = chunk.lstrip(b"\0")
        return packed

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)


class TarStream(io.RawIOBase):
    """A forward-only stream over the plain bytes, which never hands out more at once than it was told to."""

    def __init__(self, file: BinaryIO, kind: FileType, meter: SizeMeter) -> None:
        self._plain = _decompressing(file, kind)
        self._meter = meter
        self._position = 0
        self._header_bytes_left = 0
        self.member = "its beginning"  # for messages
        self.last_read = b""

    def expect_header(self) -> None:
        """From here a member's headers are read, and these are short."""
        self._header_bytes_left = HEADER_BYTES

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        # A header can claim a negative size, which would send a reader back in circles.
        if whence != io.SEEK_SET or position < self._position:
            raise DatasetRejected(f"the archive is damaged after {quote(self.member)}: pack it again")
        while self._position < position and self._read(min(CHUNK_BYTES, position - self._position)):
            pass
        return self._position

    def read(self, size: int = -1) -> bytes:
        """A part of a header, for tarfile: `size` bytes unless the stream ends."""
        self._header_bytes_left -= size
        if size < 0 or self._header_bytes_left < 0:
            raise LimitExceeded(f"the headers after {quote(self.member)} are too long: pack it again")
        self.last_read = self._read(size)
        if ENDLESS_NUMBER.search(self.last_read):
            raise DatasetRejected(f"the headers after {quote(self.member)} are damaged: pack it again")
        return self.last_read

    def chunks(self, size_bytes: int) -> Iterator[bytes]:
        """The next bytes, in pieces."""
        while size_bytes > 0:
            chunk = self._read(min(CHUNK_BYTES, size_bytes))
            if not chunk:
                raise DatasetRejected(f"the archive is cut off within {quote(self.member)}: pack it again")
            size_bytes -= len(chunk)
            yield chunk

    def rest(self) -> Iterator[bytes]:
        """All that is left, in pieces; on the way, checksums at the end are verified."""
        while chunk := self._read(CHUNK_BYTES):
            yield chunk

    def _read(self, size: int) -> bytes:
        try:
            data = self._plain.read(size)
        except DAMAGE as error:
            raise DatasetRejected(
                f"the archive is cut off or damaged at {quote(self.member)} ({describe_error(error)}): pack it again"
            ) from error
        self._position += len(data)
        self._meter.take(self.member, len(data))
        return data


def _decompressing(file: BinaryIO, kind: FileType) -> BinaryIO:
    if kind == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if kind == "bzip2":
        return cast(BinaryIO, bz2.BZ2File(file))
    if kind == "xz":
        return cast(BinaryIO, io.BufferedReader(_Xz(file), CHUNK_BYTES))
    return file
