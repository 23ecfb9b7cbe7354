"""From moments to figures: rates, percentiles, ratios of rounds, and the stages of a request."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

Mark = tuple[str, float]  # a stage, and when it ended


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below or at which so many of them lie: one of them, and never something in between."""
    if not values:
        raise ValueError("nothing was measured")
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, -(-len(ranked) * percent // 100).__trunc__() - 1))]


def settled(
    began: float, ended: float, sent: Sequence[float], answered: Sequence[float], settle_s: float
) -> tuple[float, list[float]]:
    """Answers a second, and the seconds that each took: of those that came after the settling and before the end.

    Answers of a batch come all at once: the rate is the slope of their line, which does not depend on whether the
    last batch came just before the end or just after it.
    """
    pairs = sorted(zip(answered, sent, strict=True))
    within = [(done, asked) for done, asked in pairs if began + settle_s <= done < ended]
    if len({done for done, _ in within}) < 2:
        raise ValueError("too few answers to tell a rate: give it more seconds")
    slope, _ = statistics.linear_regression([done for done, _ in within], range(len(within)))
    return slope, [done - asked for done, asked in within]


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' own ratios: what made one round slow made both of its contenders slow."""
    return statistics.median(one / other for one, other in zip(over, under, strict=True))


def mean_seconds(before: Mapping[str, float], after: Mapping[str, float], name: str, labels: str = "") -> float | None:
    """The mean of what a histogram has counted in between; None if that was nothing."""
    counted = after.get(f"{name}_count{labels}", 0.0) - before.get(f"{name}_count{labels}", 0.0)
    summed = after.get(f"{name}_sum{labels}", 0.0) - before.get(f"{name}_sum{labels}", 0.0)
    return summed / counted if counted else None


def stages(sent: float, marks: Sequence[Mark], answered: float) -> dict[str, float]:
    """The seconds of each stage of one request, from the client's sending to its receiving."""
    moments = [("sent", sent), *marks, ("return", answered)]
    gaps = {name: end - begin for (_, begin), (name, end) in pairwise(moments)}
    if len(gaps) != len(moments) - 1:
        raise ValueError("a stage was passed twice: requests must come one at a time")
    return gaps


def median_stages(requests: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each stage, in the order that a request passes them."""
    return {name: statistics.median(request[name] for request in requests) for name in requests[0]}
