"""Named places where a process may die in the middle of something: nothing happens there, unless a test says so."""

from collections.abc import Callable

# Every place that `hit_failpoint` is called with, in the order of the work.
FAILPOINTS = (
    "upload: claimed",  # the claim is written, no object yet
    "upload: half the objects",
    "upload: objects written",
    "upload: committed",  # rows are there, scratch is not wiped yet
    "publish: object written",
    "publish: committed",
    "erasure: requested",  # serving has stopped, no step has run
    "erasure: half the objects",
    "erasure: objects removed",  # removed, and the step not yet noted
    "erasure: rows removed",
    "erasure: before the receipt",
    "erasure: complete",
)

# What a test puts here runs at every point; the product never sets it.
on_hit: Callable[[str], None] | None = None


def hit_failpoint(point: str) -> None:
    """Marks that the process is at a named point."""
    assert point in FAILPOINTS, point
    if on_hit is not None:
        on_hit(point)
