"""How much a collection may hold, and the meter that counts what really comes out of it."""

from dataclasses import dataclass

from registry.datasets.member_names import quote, split_path
from registry.errors import LimitExceeded

MIB = 2**20
# Small archives of small pictures may shrink a lot without harm; the ratio is asked about above this.
UNSUSPICIOUS_BYTES = MIB


@dataclass(frozen=True)
class DatasetLimits:
    """The bounds of one collection; training decodes no more pixels than the default allows."""

    max_files: int = 200_000  # every member counts: folders and litter too
    max_file_bytes: int = 64 * MIB
    max_total_bytes: int = 8192 * MIB
    max_ratio: int = 100  # unpacked bytes for one packed byte
    max_pixels: int = 50_000_000
    max_name_length: int = 512
    max_depth: int = 16  # folders above a file, and itself
    max_label_length: int = 128

    def parts_of(self, name: str) -> tuple[str, ...]:
        """The components of a name from outside, checked; see `safe_parts`."""
        return split_path(name, max_length=self.max_name_length, max_depth=self.max_depth)


DEFAULT_LIMITS = DatasetLimits()


class SizeMeter:
    """Counts members and bytes as they come, and stops the reading at a limit."""

    def __init__(self, limits: DatasetLimits, packed_bytes: int | None = None) -> None:
        self.limits = limits
        self._files = 0
        self._total_bytes = 0
        self._ratio_bytes = None if packed_bytes is None else max(UNSUSPICIOUS_BYTES, packed_bytes * limits.max_ratio)

    def count(self, name: str) -> None:
        """Counts one member."""
        self._files += 1
        if self._files > self.limits.max_files:
            raise LimitExceeded(f"more than {self.limits.max_files} files, at {quote(name)}: split the collection")

    def check_file(self, name: str, size_bytes: int) -> None:
        """Refuses a file by its size, declared or counted."""
        if size_bytes > self.limits.max_file_bytes:
            raise LimitExceeded(
                f"{quote(name)} is larger than {self.limits.max_file_bytes} bytes: make the picture smaller"
            )

    def check_total(self, name: str, size_bytes: int) -> None:
        """Refuses a collection by its whole size, declared or counted."""
        if size_bytes > self.limits.max_total_bytes:
            raise LimitExceeded(f"more than {self.limits.max_total_bytes} bytes in all, at {quote(name)}: split it")

    def take(self, name: str, size_bytes: int) -> None:
        """Counts bytes that came out of the collection while the named member was read."""
        self._total_bytes += size_bytes
        self.check_total(name, self._total_bytes)
        if self._ratio_bytes is not None and self._total_bytes > self._ratio_bytes:
            raise LimitExceeded(
                f"unpacks to more than {self.limits.max_ratio} times its size, at {quote(name)}: "
                "pack the pictures as JPEG or PNG"
            )
