"""Named places where a process may die in the middle of something: nothing happens there, unless a test says so."""

from collections.abc import Callable

# Every place that `reach` is called with, in the order of the work.
POINTS = (
    "upload: held",  # the holding is written, no object yet
    "upload: half the objects",
    "upload: objects written",
    "upload: committed",  # rows are there, scratch is not wiped yet
    "publish: object written",
    "publish: committed",
    "erasure: begun",  # serving has stopped, no step has run
    "erasure: half the objects",
    "erasure: objects removed",  # removed, and the step not yet noted
    "erasure: rows removed",
    "erasure: before the receipt",
    "erasure: complete",
)

# What a test puts here runs at every point; the product never sets it.
on_reach: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Marks that the process is at a named point."""
    assert point in POINTS, point
    if on_reach is not None:
        on_reach(point)
