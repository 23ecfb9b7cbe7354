"""Reads a zip; its directory is checked as a whole before the first picture is unpacked.

Zip bombs are rejected by the size and ratio limits of `limits.SizeMeter` and, if members overlap, here.
"""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.datasets.file_tree import CHUNK_BYTES, FileTree, FileTreeBuilder, PathParts, UnpackDir
from registry.datasets.limits import DatasetLimits, SizeMeter
from registry.datasets.member_names import describe_error, quote
from registry.errors import DatasetRejected, LimitExceeded

LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field
DIRECTORY_SIGNATURE = b"PK\x01\x02"
MIN_ENTRY_BYTES = 46  # of a directory entry; with name and extra fields it rarely exceeds the next
TYPICAL_MAX_ENTRY_BYTES = 320
ENCRYPTED = 0x1 | 0x40 | 0x2000
UTF8_NAME = 0x800

# Only these are unpacked in chunks: zipfile unpacks the others without a memory limit.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    LookupError,
    RuntimeError,
)


class _BoundedFile(io.BufferedReader):
    """The archive's file with a limit on the one read whose size the archive chooses: its directory."""

    def __init__(self, path: Path, limits: DatasetLimits) -> None:
        super().__init__(io.FileIO(path))
        self._size_bytes = path.stat().st_size
        self._limits = limits

    def read(self, size: int | None = -1, /) -> bytes:
        left_bytes = max(0, self._size_bytes - self.tell())
        read_bytes = left_bytes if size is None or size < 0 else min(size, left_bytes)
        max_files = self._limits.max_files
        if read_bytes > max(CHUNK_BYTES * 2, max_files * TYPICAL_MAX_ENTRY_BYTES):
            raise LimitExceeded("the zip's directory is too long: split the dataset")
        data = super().read(read_bytes)
        if read_bytes > max_files * MIN_ENTRY_BYTES and data.count(DIRECTORY_SIGNATURE) > max_files:
            raise LimitExceeded(f"the zip has more than {max_files} files: split the dataset")
        return data


def read_zip(path: Path, unpack_dir: UnpackDir, meter: SizeMeter, within: PathParts = ()) -> FileTree:
    """Unpack the selected files of an untrusted zip; member names are never used as paths."""
    builder = FileTreeBuilder(meter, within)
    with _BoundedFile(path, meter.limits) as file:
        with _translate_errors("its directory"):
            archive = zipfile.ZipFile(file)
        with archive:
            selected = _check_directory(archive, builder, meter)
            with _translate_errors("its directory"):
                _reject_overlaps(archive, file)
            for info, name, parts in selected:
                unpacked, digest = unpack_dir.write(name, _read_chunks(archive, info, name, meter))
                builder.add_file(name, parts, unpacked, digest)
    return builder.build()


def _check_directory(
    archive: zipfile.ZipFile, builder: FileTreeBuilder, meter: SizeMeter
) -> list[tuple[zipfile.ZipInfo, str, PathParts]]:
    selected: list[tuple[zipfile.ZipInfo, str, PathParts]] = []
    declared_bytes = 0
    for info in archive.infolist():
        name = _decode_name(info)
        parts = builder.check_name(name)
        if info.flag_bits & ENCRYPTED:
            raise DatasetRejected(f"{quote(name)} is encrypted: pack it without a password")
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DatasetRejected(f"{quote(name)} is a link, device or pipe: pack ordinary files only")
        if parts is None:
            continue
        if name.endswith("/"):
            builder.add_folder(parts)
            continue
        if info.compress_type not in METHODS:
            raise DatasetRejected(
                f"{quote(name)} is compressed with method {info.compress_type}: pack the zip with deflate"
            )
        builder.reserve(name, parts)
        meter.check_file(name, info.file_size)
        declared_bytes += info.file_size
        meter.check_total(name, declared_bytes)
        selected.append((info, name, parts))
    return selected


def _reject_overlaps(archive: zipfile.ZipFile, file: io.BufferedReader) -> None:
    """Reject members that share bytes: so a small zip can unpack to petabytes."""
    end = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        file.seek(info.header_offset)
        signature, name_bytes, extra_bytes = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no header where {_decode_name(info)!r} should be")
        if info.header_offset < end:
            raise DatasetRejected(f"{quote(_decode_name(info))} overlaps another member: pack the zip again")
        end = info.header_offset + LOCAL_HEADER.size + name_bytes + extra_bytes + info.compress_size
        if end > archive.start_dir:
            raise DatasetRejected(f"{quote(_decode_name(info))} overlaps the directory: pack the zip again")


def _read_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, meter: SizeMeter) -> Iterator[bytes]:
    size_bytes = 0
    with _translate_errors(name):
        member = archive.open(info)
    with member:
        while True:
            with _translate_errors(name):
                chunk = member.read(CHUNK_BYTES)
            if not chunk:
                break
            size_bytes += len(chunk)
            meter.count_bytes(name, len(chunk))
            yield chunk
    if size_bytes != info.file_size:
        raise DatasetRejected(f"{quote(name)} does not have the size that it declares: pack the zip again")


def _decode_name(info: zipfile.ZipInfo) -> str:
    """Return the whole name, also after a NUL; many programs write UTF-8 without setting the flag."""
    name = info.orig_filename
    if not info.flag_bits & UTF8_NAME:
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        raise DatasetRejected(
            f"the zip is cut off or damaged at {quote(name)} ({describe_error(error)}): pack it again"
        ) from error
