"""What was measured, as lines of the tables."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.output import Line
from bench.serving.load import Loaded
from bench.serving.processes.load_client import Report
from bench.serving.stats import median_stages, percentile, ratio, stages

MILLI = 1000.0


def load_line(name: str, rounds: Sequence[Loaded], peer: Sequence[Loaded]) -> Line:
    """A contender under load; its rate over the peer's is the median of the rounds' own ratios."""
    seconds = [one for done in rounds for one in done.seconds]
    return {
        "contender": name,
        "per_second": statistics.median(rates(rounds)),
        "p50_ms": percentile(seconds, 50) * MILLI,
        "p99_ms": percentile(seconds, 99) * MILLI,
        "cpu_ms": statistics.median(done.cpu_seconds for done in rounds) * MILLI,
        "rights_ms": _mean_ms([done.rights_seconds for done in rounds]),
        "recheck_ms": _mean_ms([done.recheck_seconds for done in rounds]),
        "over_litserve": ratio(rates(rounds), rates(peer)),
    }


def lone_line(name: str, rounds: Sequence[Report], bare: Sequence[Report]) -> Line:
    """A contender with one request at a time."""
    seconds = [one for report in rounds for one in seconds_of(report)]
    return {
        "contender": name,
        "p50_ms": percentile(seconds, 50) * MILLI,
        "p99_ms": percentile(seconds, 99) * MILLI,
        "over_bare": ratio(p50s(rounds), p50s(bare)),
    }


def stage_lines(rounds: Sequence[Report], marks: Path) -> list[Line]:
    """Where the milliseconds of a lone request go, by the marks that the traced service has left."""
    left = [[(str(stage), float(at)) for stage, at in json.loads(line)] for line in marks.read_text().splitlines()]
    found = []
    for report in rounds:
        for sent, answered in zip(report.sent, report.answered, strict=True):
            own = next(line for line in left if sent <= line[0][1] <= answered)
            found.append(stages(sent, own, answered))
    medians = median_stages(found)
    whole = sum(medians.values())
    return [{"stage": name, "ms": one * MILLI, "share": one / whole} for name, one in medians.items()]


def rates(rounds: Sequence[Loaded]) -> list[float]:
    """Answers a second of each round."""
    return [done.per_second for done in rounds]


def p50s(rounds: Sequence[Report]) -> list[float]:
    """The median of each round's requests, in seconds."""
    return [percentile(seconds_of(report), 50) for report in rounds]


def seconds_of(report: Report) -> list[float]:
    """What each request took."""
    return [answered - sent for sent, answered in zip(report.sent, report.answered, strict=True)]


def spread(over: Mapping[str, Sequence[Loaded]], key: str, peer: str) -> tuple[float, float]:
    """The lowest and the highest of the rounds' own ratios."""
    each = [one / other for one, other in zip(rates(over[key]), rates(over[peer]), strict=True)]
    return min(each), max(each)


def _mean_ms(rounds: Sequence[float | None]) -> float | None:
    known = [seconds for seconds in rounds if seconds is not None]
    return statistics.mean(known) * MILLI if known else None
