"""The memory of a process, and whether it grows over a run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

KIB = 2**10
MIB = 2**20
MIN_SAMPLES = 20  # for a judgement


@dataclass(frozen=True)
class Memory:
    """Resident memory: RSS, and the anonymous part of PSS.

    File pages are left out of PSS because their share depends on the other processes of the machine.
    """

    rss_bytes: int
    own_bytes: int


def memory_of(pid: int) -> Memory:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {name: int(size) * KIB for name, size in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}
    return Memory(sizes["Rss"], sizes["Pss_Anon"])


def growth_bytes(samples: Sequence[int]) -> float:
    """Return the median of the last fifth of the run minus that of the second fifth.

    The first fifth is warm-up; medians ignore single peaks.
    """
    assert len(samples) >= MIN_SAMPLES, f"{len(samples)} samples are too few: at least {MIN_SAMPLES}"
    fifth = len(samples) // 5
    return median(samples[-fifth:]) - median(samples[fifth : 2 * fifth])


def worst_growth_bytes(samples: Sequence[Memory]) -> float:
    return max(growth_bytes([one.rss_bytes for one in samples]), growth_bytes([one.own_bytes for one in samples]))


def summary(samples: Sequence[Memory]) -> str:
    rss = [one.rss_bytes / MIB for one in samples]
    own = [one.own_bytes / MIB for one in samples]
    grown = worst_growth_bytes(samples) / MIB
    return (
        f"{len(samples)} samples: RSS {rss[0]:.1f} first, {max(rss):.1f} at most, {rss[-1]:.1f} MiB last; "
        f"of its own {own[0]:.1f}, {max(own):.1f}, {own[-1]:.1f} MiB; grown by {grown:.2f} MiB"
    )
