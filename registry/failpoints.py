"""Failpoints: named places in the code where a test can interrupt or kill the process. They do nothing otherwise."""

from collections.abc import Callable

# All failpoints, in the order in which the work passes them.
FAILPOINTS = (
    "upload: claimed",  # the write claim is committed, no object is written
    "upload: half the objects",
    "upload: objects written",
    "upload: committed",  # the rows are committed, the job folder is not removed
    "publish: object written",
    "publish: committed",
    "erasure: requested",  # prompts are no longer served, no step has run
    "erasure: half the objects",
    "erasure: objects removed",  # the step is not recorded as done
    "erasure: rows removed",
    "erasure: before the receipt",
    "erasure: complete",
)

# Set by tests only; called with the name of each failpoint that is passed.
on_hit: Callable[[str], None] | None = None


def hit_failpoint(point: str) -> None:
    """Call `on_hit`, if a test has set it."""
    assert point in FAILPOINTS, point
    if on_hit is not None:
        on_hit(point)
