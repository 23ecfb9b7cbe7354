"""Statistics of timestamps: rates, percentiles, ratios of rounds, and the stages of a request."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

StageEnd = tuple[str, float]  # a stage, and when it ended


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least this percentage of values do not exceed, without interpolation."""
    if not values:
        raise ValueError("nothing was measured")
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, -(-len(ranked) * percent // 100).__trunc__() - 1))]


def steady_state(
    began: float, ended: float, sent: Sequence[float], answered: Sequence[float], warmup_s: float
) -> tuple[float, list[float]]:
    """Return responses per second and the seconds of each, between the warm-up and the end.

    Responses of a batch come together, so the rate is the slope of a line through them, which does not depend on
    whether the last batch came just before or just after the end.
    """
    pairs = sorted(zip(answered, sent, strict=True))
    within = [(end, begin) for end, begin in pairs if began + warmup_s <= end < ended]
    if len({end for end, _ in within}) < 2:
        raise ValueError("too few responses for a rate: increase --seconds")
    slope, _ = statistics.linear_regression([end for end, _ in within], range(len(within)))
    return slope, [end - begin for end, begin in within]


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the ratios of the rounds; what slows a round slows both contenders."""
    return statistics.median(one / other for one, other in zip(over, under, strict=True))


def mean_seconds(before: Mapping[str, float], after: Mapping[str, float], name: str, labels: str = "") -> float | None:
    """Return the mean of a histogram's observations between two readings; None if there were none."""
    counted = after.get(f"{name}_count{labels}", 0.0) - before.get(f"{name}_count{labels}", 0.0)
    summed = after.get(f"{name}_sum{labels}", 0.0) - before.get(f"{name}_sum{labels}", 0.0)
    return summed / counted if counted else None


def stage_seconds(sent: float, marks: Sequence[StageEnd], answered: float) -> dict[str, float]:
    """Return the seconds of each stage of one request, from the client's sending to its receiving."""
    timestamps = [("sent", sent), *marks, ("return", answered)]
    gaps = {name: end - begin for (_, begin), (name, end) in pairwise(timestamps)}
    if len(gaps) != len(timestamps) - 1:
        raise ValueError("a stage occurs twice: requests must come one at a time")
    return gaps


def median_stages(requests: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each stage, in order."""
    return {name: statistics.median(request[name] for request in requests) for name in requests[0]}
