"""Size limits of a dataset, and the meter that enforces them.

Every reader counts its files and unpacked bytes here, so decompression bombs, zip or tar, are rejected here:
by the total size and by the ratio of unpacked to packed bytes. `zip_reader` also rejects overlapping members.
"""

from dataclasses import dataclass

from registry.datasets.member_names import quote, split_path
from registry.errors import LimitExceeded

MIB = 2**20
# Small archives of small pictures may compress well; the ratio is checked above this size only.
MIN_RATIO_BYTES = MIB


@dataclass(frozen=True)
class DatasetLimits:
    """The limits of one dataset; training decodes no more pixels than the default allows."""

    max_files: int = 200_000  # every archive member counts, also folders and system files
    max_file_bytes: int = 64 * MIB
    max_total_bytes: int = 8192 * MIB
    max_ratio: int = 100  # unpacked bytes per packed byte
    max_pixels: int = 50_000_000
    max_name_length: int = 512
    max_depth: int = 16  # path components, the file name included
    max_label_length: int = 128

    def split_path(self, name: str) -> tuple[str, ...]:
        """Return the components of an untrusted name within these limits; see `member_names.split_path`."""
        return split_path(name, max_length=self.max_name_length, max_depth=self.max_depth)


DEFAULT_LIMITS = DatasetLimits()


class SizeMeter:
    """Counts files and unpacked bytes, and raises LimitExceeded at a limit."""

    def __init__(self, limits: DatasetLimits, packed_bytes: int | None = None) -> None:
        self.limits = limits
        self._files = 0
        self._total_bytes = 0
        self._ratio_bytes = None if packed_bytes is None else max(MIN_RATIO_BYTES, packed_bytes * limits.max_ratio)

    def count_file(self, name: str) -> None:
        """Count one file or folder."""
        self._files += 1
        if self._files > self.limits.max_files:
            raise LimitExceeded(f"more than {self.limits.max_files} files, at {quote(name)}: split the dataset")

    def check_file(self, name: str, size_bytes: int) -> None:
        """Reject a file by its size, declared or counted."""
        if size_bytes > self.limits.max_file_bytes:
            raise LimitExceeded(
                f"{quote(name)} is larger than {self.limits.max_file_bytes} bytes: make the picture smaller"
            )

    def check_total(self, name: str, size_bytes: int) -> None:
        """Reject a dataset by its total size, declared or counted."""
        if size_bytes > self.limits.max_total_bytes:
            raise LimitExceeded(
                f"more than {self.limits.max_total_bytes} bytes in total, at {quote(name)}: split the dataset"
            )

    def count_bytes(self, name: str, size_bytes: int) -> None:
        """Count bytes that were unpacked while the named file was read."""
        self._total_bytes += size_bytes
        self.check_total(name, self._total_bytes)
        if self._ratio_bytes is not None and self._total_bytes > self._ratio_bytes:
            raise LimitExceeded(
                f"the archive unpacks to more than {self.limits.max_ratio} times its size, at {quote(name)}: "
                "pack the pictures as JPEG or PNG"
            )
