"""Reads a tar, compressed or not, in one pass; every member is checked, and the selected ones are unpacked."""

import bz2
import gzip
import io
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from registry.datasets.file_tree import CHUNK_BYTES, FileTree, FileTreeBuilder, PathParts, UnpackDir
from registry.datasets.filetype import FileType
from registry.datasets.limits import MIB, SizeMeter
from registry.datasets.member_names import describe_error, quote
from registry.errors import DatasetRejected, LimitExceeded

# An untrusted xz may ask for a dictionary of gigabytes; `xz -9` asks for 65 MiB.
XZ_MEMORY_BYTES = 128 * MIB
# tarfile keeps a member's headers in memory as a whole, however long they claim to be.
HEADER_BYTES = 16 * 1024
# In some versions of Python, tarfile's time grows with the square of a header's longest run of digits.
LONG_NUMBER = re.compile(rb"\d{256}")
END_MARK = bytes(tarfile.BLOCKSIZE)

DECOMPRESSION_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)
# What tarfile raises, beside its own errors, on malicious headers.
HEADER_ERRORS = (tarfile.TarError, ValueError, OverflowError, LookupError, TypeError, struct.error, RecursionError)


def read_tar(
    path: Path, file_type: FileType, unpack_dir: UnpackDir, meter: SizeMeter, within: PathParts = ()
) -> FileTree:
    """Unpack the selected files of an untrusted tar; member names are never used as paths."""
    builder = FileTreeBuilder(meter, within)
    with path.open("rb") as file:
        stream = TarStream(file, file_type, meter)
        archive: tarfile.TarFile | None = None
        while True:
            stream.expect_header()
            try:
                archive = archive or _open_tar(stream)
                info = archive.next()
            except HEADER_ERRORS as error:
                raise DatasetRejected(
                    f"no valid tar header after {quote(stream.member)} ({describe_error(error)}): pack it again"
                ) from error
            if info is None:
                break
            # tarfile would keep every header in memory.
            archive.members.clear()  # type: ignore[attr-defined]  # typeshed does not know it
            archive.pax_headers = {}
            _read_member(info, stream, builder, unpack_dir, meter)
        _reject_unfinished(stream)
    return builder.build()


def _open_tar(stream: "TarStream") -> tarfile.TarFile:
    # TarStream has all methods of IO that reading needs.
    return tarfile.TarFile(fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape")


def _read_member(
    info: tarfile.TarInfo, stream: "TarStream", builder: FileTreeBuilder, unpack_dir: UnpackDir, meter: SizeMeter
) -> None:
    stream.member = info.name
    parts = builder.check_name(info.name)
    if info.isdir():
        if parts is not None:
            builder.add_folder(parts)
        return
    if not info.isreg() or info.issparse():
        raise DatasetRejected(f"{quote(info.name)} is a link, device or pipe: pack ordinary files only")
    if info.size < 0 or stream.tell() != info.offset_data:
        raise DatasetRejected(f"the header of {quote(info.name)} is damaged: pack the archive again")
    if parts is None:
        return
    builder.reserve(info.name, parts)
    meter.check_file(info.name, info.size)
    path, digest = unpack_dir.write(info.name, stream.chunks(info.size))
    builder.add_file(info.name, parts, path, digest)


def _reject_unfinished(stream: "TarStream") -> None:
    """Reject a tar that just stops, or goes on with something else after its end: pictures may be missing."""
    if stream.last_read != END_MARK:
        raise DatasetRejected(f"the archive stops or is damaged after {quote(stream.member)}: pack it again")
    for chunk in stream.remaining_chunks():
        if chunk.count(0) != len(chunk):
            raise DatasetRejected(
                f"the archive goes on after its end mark, behind {quote(stream.member)}: pack it as one tar"
            )


class TarStream(io.RawIOBase):
    """A forward-only stream over the decompressed bytes, which counts them and limits every read."""

    def __init__(self, file: BinaryIO, file_type: FileType, meter: SizeMeter) -> None:
        self._decompressed = _decompress(file, file_type)
        self._meter = meter
        self._position = 0
        self._header_bytes_left = 0
        self.member = "its beginning"  # for messages
        self.last_read = b""

    def expect_header(self) -> None:
        """Allow the next reads to be a member's headers, which are short."""
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
        """Return a part of a header, for tarfile: `size` bytes unless the stream ends."""
        self._header_bytes_left -= size
        if size < 0 or self._header_bytes_left < 0:
            raise LimitExceeded(f"the headers after {quote(self.member)} are too long: pack it again")
        self.last_read = self._read(size)
        if LONG_NUMBER.search(self.last_read):
            raise DatasetRejected(f"the headers after {quote(self.member)} are damaged: pack it again")
        return self.last_read

    def chunks(self, size_bytes: int) -> Iterator[bytes]:
        """Yield the next bytes in chunks."""
        while size_bytes > 0:
            chunk = self._read(min(CHUNK_BYTES, size_bytes))
            if not chunk:
                raise DatasetRejected(f"the archive is cut off within {quote(self.member)}: pack it again")
            size_bytes -= len(chunk)
            yield chunk

    def remaining_chunks(self) -> Iterator[bytes]:
        """Yield everything up to the end in chunks; reading it also verifies checksums at the end."""
        while chunk := self._read(CHUNK_BYTES):
            yield chunk

    def _read(self, size: int) -> bytes:
        try:
            data = self._decompressed.read(size)
        except DECOMPRESSION_ERRORS as error:
            raise DatasetRejected(
                f"the archive is cut off or damaged at {quote(self.member)} ({describe_error(error)}): pack it again"
            ) from error
        self._position += len(data)
        self._meter.count_bytes(self.member, len(data))
        return data


def _decompress(file: BinaryIO, file_type: FileType) -> BinaryIO:
    if file_type == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if file_type == "bzip2":
        return cast(BinaryIO, bz2.BZ2File(file))
    if file_type == "xz":
        return cast(BinaryIO, io.BufferedReader(_XzReader(file), CHUNK_BYTES))
    return file


class _XzReader(io.RawIOBase):
    """Like lzma.open, with a limit on the memory that the file may ask for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = self._new_decompressor()

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
                self._decompressor = self._new_decompressor()
            elif self._decompressor.needs_input:
                packed = self._file.read(CHUNK_BYTES)
                if not packed:
                    raise EOFError("ends too early")
            unpacked = self._decompressor.decompress(packed, max_length=len(target))
            if unpacked:
                target[: len(unpacked)] = unpacked
                return len(unpacked)

    def _next_stream(self) -> bytes:
        packed = self._decompressor.unused_data.lstrip(b"\0")  # streams may be padded with zeros
        while not packed:
            chunk = self._file.read(CHUNK_BYTES)
            if not chunk:
                return b""
            packed = chunk.lstrip(b"\0")
        return packed

    @staticmethod
    def _new_decompressor() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
