"""The rows of the serving benchmark's tables."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.output import TableRow
from bench.serving.load import LoadResult
from bench.serving.processes.load_client import LoadReport
from bench.serving.stats import median_stages, percentile, ratio, stage_seconds

MS_PER_SECOND = 1000.0


def load_row(name: str, rounds: Sequence[LoadResult], peer: Sequence[LoadResult]) -> TableRow:
    """Return the row of a contender under load; its rate over the peer's is the median of the rounds' ratios."""
    seconds = [one for result in rounds for one in result.seconds]
    return {
        "contender": name,
        "per_second": statistics.median(rates(rounds)),
        "p50_ms": percentile(seconds, 50) * MS_PER_SECOND,
        "p99_ms": percentile(seconds, 99) * MS_PER_SECOND,
        "cpu_ms": statistics.median(result.cpu_seconds for result in rounds) * MS_PER_SECOND,
        "rights_ms": _mean_ms([result.rights_seconds for result in rounds]),
        "recheck_ms": _mean_ms([result.recheck_seconds for result in rounds]),
        "over_litserve": ratio(rates(rounds), rates(peer)),
    }


def single_row(name: str, rounds: Sequence[LoadReport], bare: Sequence[LoadReport]) -> TableRow:
    """Return the row of a contender with one request at a time."""
    seconds = [one for report in rounds for one in request_seconds(report)]
    return {
        "contender": name,
        "p50_ms": percentile(seconds, 50) * MS_PER_SECOND,
        "p99_ms": percentile(seconds, 99) * MS_PER_SECOND,
        "over_bare": ratio(p50s(rounds), p50s(bare)),
    }


def stage_rows(rounds: Sequence[LoadReport], marks: Path) -> list[TableRow]:
    """Return the time of each stage of a single request, from the file of the traced service."""
    traces = [[(str(stage), float(end)) for stage, end in json.loads(line)] for line in marks.read_text().splitlines()]
    requests = []
    for report in rounds:
        for sent, answered in zip(report.sent, report.answered, strict=True):
            trace = next(trace for trace in traces if sent <= trace[0][1] <= answered)
            requests.append(stage_seconds(sent, trace, answered))
    medians = median_stages(requests)
    total = sum(medians.values())
    return [
        {"stage": name, "ms": seconds * MS_PER_SECOND, "share": seconds / total} for name, seconds in medians.items()
    ]


def rates(rounds: Sequence[LoadResult]) -> list[float]:
    """Return the responses per second of each round."""
    return [result.per_second for result in rounds]


def p50s(rounds: Sequence[LoadReport]) -> list[float]:
    """Return the median seconds of each round's requests."""
    return [percentile(request_seconds(report), 50) for report in rounds]


def request_seconds(report: LoadReport) -> list[float]:
    """Return the seconds of each request."""
    return [answered - sent for sent, answered in zip(report.sent, report.answered, strict=True)]


def ratio_range(results: Mapping[str, Sequence[LoadResult]], key: str, peer: str) -> tuple[float, float]:
    """Return the lowest and the highest ratio of a round."""
    ratios = [one / other for one, other in zip(rates(results[key]), rates(results[peer]), strict=True)]
    return min(ratios), max(ratios)


def _mean_ms(rounds: Sequence[float | None]) -> float | None:
    known = [seconds for seconds in rounds if seconds is not None]
    return statistics.mean(known) * MS_PER_SECOND if known else None
