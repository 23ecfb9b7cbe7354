"""The rounds of the serving benchmark: all contenders under load, then with single requests, in turns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.serving.bare_model import BareModel
from bench.serving.contenders import MIXED, TRACED
from bench.serving.load import Contender, LoadResult, compute_single, measure_load, send_single_requests
from bench.serving.processes.load_client import LoadReport

BARE = "bare"
SINGLE_TURNS = 5  # per round, with few requests each, so that a slow moment affects all contenders

SendSingle = Callable[[Sequence[bytes], int, int], LoadReport]  # pictures, number of requests, first picture


@dataclass(frozen=True)
class ScheduleOptions:
    """The number of rounds, and the load of each turn."""

    rounds: int
    connections: int  # under load
    seconds: float  # of a turn under load
    requests: int  # of a turn with single requests


@dataclass(frozen=True)
class ScheduleResult:
    """The measurements of each turn, by contender."""

    loads: Mapping[str, Sequence[LoadResult]]
    singles: Mapping[str, Sequence[LoadReport]]  # includes the bare pass


def run_rounds(
    contenders: Mapping[str, Contender],
    model: BareModel,
    pictures: Sequence[bytes],
    pictures_file: Path,
    options: ScheduleOptions,
    log: Callable[[str], None],
) -> ScheduleResult:
    """Run all rounds; `pictures_file` has the same pictures for the client process."""
    loads: dict[str, list[LoadResult]] = {key: [] for key in contenders if key != TRACED}
    senders: dict[str, SendSingle] = {BARE: partial(compute_single, model)}
    senders |= {key: partial(send_single_requests, one) for key, one in contenders.items() if key != MIXED}
    singles: dict[str, list[LoadReport]] = {key: [] for key in senders}
    for number in range(options.rounds):
        log(f"round {number + 1} of {options.rounds}")
        # Alternate the direction, so that no contender is always late in its round.
        for key in list(loads)[:: -1 if number % 2 else 1]:
            loads[key].append(measure_load(contenders[key], pictures_file, options.connections, options.seconds))
        for turn in range(number * SINGLE_TURNS, (number + 1) * SINGLE_TURNS):
            for key, send in senders.items():
                singles[key].append(send(pictures, options.requests, turn * options.requests))
    return ScheduleResult(loads, singles)
