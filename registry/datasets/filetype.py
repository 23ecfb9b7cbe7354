"""Detects a file's type by its first bytes; its name is never used."""

import tarfile
from typing import Literal

HEAD_BYTES = 512  # one block of a tar, the longest of the signatures

FileType = Literal["zip", "tar", "gzip", "bzip2", "xz", "unsupported archive", "other"]

SIGNATURES: tuple[tuple[bytes, FileType], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),  # without any member
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"7z\xbc\xaf\x27\x1c", "unsupported archive"),
    (b"Rar!\x1a\x07", "unsupported archive"),
    (b"\x28\xb5\x2f\xfd", "unsupported archive"),  # zstandard
    (b"PK\x07\x08", "unsupported archive"),  # a zip in several volumes
)


def detect_file_type(head: bytes) -> FileType:
    """Return the type of the file whose first HEAD_BYTES are these."""
    for signature, file_type in SIGNATURES:
        if head.startswith(signature):
            return file_type
    return "tar" if _is_tar(head[:HEAD_BYTES]) else "other"


def _is_tar(block: bytes) -> bool:
    if len(block) < HEAD_BYTES:
        return False
    if block == bytes(HEAD_BYTES):  # the end mark: a tar without any member
        return True
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True
