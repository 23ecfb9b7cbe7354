"""Reading a zip: its directory is checked as a whole before the first byte of a picture is unpacked."""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.datasets.file_tree import FileTree, FileTreeBuilder, PathParts
from registry.datasets.limits import DatasetLimits, SizeMeter
from registry.datasets.member_names import describe_error, quote
from registry.datasets.unpack_dir import CHUNK_BYTES, UnpackDir
from registry.errors import DatasetRejected, LimitExceeded

LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field
DIRECTORY_SIGNATURE = b"PK\x01\x02"
DIRECTORY_ENTRY_BYTES = 46  # at least; and with name and extra fields seldom more than the next
GENEROUS_ENTRY_BYTES = 320
ENCRYPTED = 0x1 | 0x40 | 0x2000
UTF8_NAME = 0x800

# Only these are unpacked piece by piece: zipfile unpacks the others without a bound on memory.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

DAMAGE = (
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
    """The archive's file, which refuses the one read that zipfile lets the archive choose: its directory."""

    def __init__(self, path: Path, limits: DatasetLimits) -> None:
        super().__init__(io.FileIO(path))
        self._size_bytes = path.stat().st_size
        self._limits = limits

    def read(self, size: int | None = -1, /) -> bytes:
        left_bytes = max(0, self._size_bytes - self.tell())
        wanted_bytes = left_bytes if size is None or size < 0 else min(size, left_bytes)
        max_files = self._limits.max_files
        if wanted_bytes > max(CHUNK_BYTES * 2, max_files * GENEROUS_ENTRY_BYTES):
            raise LimitExceeded("the zip's directory is too long: split the collection")
        data = super().read(wanted_bytes)
        if wanted_bytes > max_files * DIRECTORY_ENTRY_BYTES and data.count(DIRECTORY_SIGNATURE) > max_files:
            raise LimitExceeded(f"the zip holds more than {max_files} files: split the collection")
        return data


def read_zip(path: Path, stash: UnpackDir, meter: SizeMeter, within: PathParts = ()) -> FileTree:
    """Unpacks the wanted files of a zip that may come from anyone; nothing is extracted by its name."""
    gathering = FileTreeBuilder(meter, within)
    with _BoundedFile(path, meter.limits) as file:
        with _translated("its directory"):
            archive = zipfile.ZipFile(file)
        with archive:
            wanted = _survey(archive, gathering, meter)
            with _translated("its directory"):
                _refuse_overlaps(archive, file)
            for info, name, parts in wanted:
                kept, digest = stash.keep(name, _chunks(archive, info, name, meter))
                gathering.add_file(name, parts, kept, digest)
    return gathering.tree()


def _survey(
    archive: zipfile.ZipFile, gathering: FileTreeBuilder, meter: SizeMeter
) -> list[tuple[zipfile.ZipInfo, str, PathParts]]:
    wanted: list[tuple[zipfile.ZipInfo, str, PathParts]] = []
    declared_bytes = 0
    for info in archive.infolist():
        name = _name_of(info)
        parts = gathering.admit(name)
        if info.flag_bits & ENCRYPTED:
            raise DatasetRejected(f"{quote(name)} is encrypted: pack it without a password")
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DatasetRejected(f"{quote(name)} is a link, device or pipe: pack ordinary files only")
        if parts is None:
            continue
        if name.endswith("/"):
            gathering.add_folder(parts)
            continue
        if info.compress_type not in METHODS:
            raise DatasetRejected(
                f"{quote(name)} is compressed with method {info.compress_type}: pack the zip with deflate"
            )
        gathering.claim(name, parts)
        meter.check_file(name, info.file_size)
        declared_bytes += info.file_size
        meter.check_total(name, declared_bytes)
        wanted.append((info, name, parts))
    return wanted


def _refuse_overlaps(archive: zipfile.ZipFile, file: io.BufferedReader) -> None:
    """Members that share bytes are how a small zip holds petabytes."""
    end = 0
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        file.seek(info.header_offset)
        signature, name_bytes, extra_bytes = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile(f"no header where {_name_of(info)!r} should be")
        if info.header_offset < end:
            raise DatasetRejected(f"{quote(_name_of(info))} overlaps another member: pack the zip again")
        end = info.header_offset + LOCAL_HEADER.size + name_bytes + extra_bytes + info.compress_size
        if end > archive.start_dir:
            raise DatasetRejected(f"{quote(_name_of(info))} overlaps the directory: pack the zip again")


def _chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, meter: SizeMeter) -> Iterator[bytes]:
    size_bytes = 0
    with _translated(name):
        member = archive.open(info)
    with member:
        while True:
            with _translated(name):
                chunk = member.read(CHUNK_BYTES)
            if not chunk:
                break
            size_bytes += len(chunk)
            meter.take(name, len(chunk))
            yield chunk
    if size_bytes != info.file_size:
        raise DatasetRejected(f"{quote(name)} has another size than it declares: pack the zip again")


def _name_of(info: zipfile.ZipInfo) -> str:
    """The whole name, also behind a NUL; many programs write UTF-8 without saying so."""
    name = info.orig_filename
    if not info.flag_bits & UTF8_NAME:
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise DatasetRejected(
            f"the zip is cut off or damaged at {quote(name)} ({describe_error(error)}): pack it again"
        ) from error
