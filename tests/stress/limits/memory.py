"""What a process takes of the memory, and whether that grows: judged over the whole of a run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

KIB = 2**10
MIB = 2**20
FEWEST = 20  # samples, to be judged


@dataclass(frozen=True)
class Memory:
    """Pages in memory: all, and the process's share (PSS) of those that are no file's.

    The share of a library's pages says more about who else runs on the machine.
    """

    rss_bytes: int
    own_bytes: int


def memory_of(pid: int) -> Memory:
    """What the process takes now."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {name: int(size) * KIB for name, size in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}
    return Memory(found["Rss"], found["Pss_Anon"])


def growth_bytes(samples: Sequence[int]) -> float:
    """How much more it was in the last fifth of the run than in the second, by their medians.

    The first fifth is for what is built once; a median lets no single peak decide.
    """
    assert len(samples) >= FEWEST, f"{len(samples)} samples say nothing"
    fifth = len(samples) // 5
    return median(samples[-fifth:]) - median(samples[fifth : 2 * fifth])


def worst_growth_bytes(samples: Sequence[Memory]) -> float:
    """The growth by whichever measure shows more of it."""
    return max(growth_bytes([one.rss_bytes for one in samples]), growth_bytes([one.own_bytes for one in samples]))


def told(samples: Sequence[Memory]) -> str:
    """The run in one line for a person to read."""
    rss = [one.rss_bytes / MIB for one in samples]
    own = [one.own_bytes / MIB for one in samples]
    grown = worst_growth_bytes(samples) / MIB
    return (
        f"{len(samples)} samples: RSS {rss[0]:.1f} at first, {max(rss):.1f} at most, {rss[-1]:.1f} MiB at last; "
        f"of its own {own[0]:.1f}, {max(own):.1f}, {own[-1]:.1f} MiB; grown by {grown:.2f} MiB"
    )
