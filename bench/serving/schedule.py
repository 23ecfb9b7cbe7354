"""The rounds of the bench: everyone under load, then everyone with one request at a time, in turns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.serving.bare_model import BareModel
from bench.serving.contenders import MIXED, TRACED
from bench.serving.load import Contender, Loaded, ask_alone, compute_alone, load
from bench.serving.processes.load_client import Report

BARE = "bare"
TURNS = 5  # of everybody's lone requests in a round: few requests each, so that what slows one slows all

AskAlone = Callable[[Sequence[bytes], int, int], Report]  # about these pictures, so many, from this one on


@dataclass(frozen=True)
class Pace:
    """How much is asked of everyone."""

    rounds: int
    connections: int  # under load
    seconds: float  # of a turn under load
    requests: int  # of a turn with one at a time


@dataclass(frozen=True)
class Played:
    """What everyone did, turn by turn, by their keys."""

    loads: Mapping[str, Sequence[Loaded]]
    lones: Mapping[str, Sequence[Report]]  # and the bare pass among them


def play(
    contenders: Mapping[str, Contender],
    model: BareModel,
    pictures: Sequence[bytes],
    kept: Path,
    pace: Pace,
    tell: Callable[[str], None],
) -> Played:
    """All rounds; `kept` holds the same pictures for the client's process."""
    loads: dict[str, list[Loaded]] = {key: [] for key in contenders if key != TRACED}
    alone: dict[str, AskAlone] = {BARE: partial(compute_alone, model)}
    alone |= {key: partial(ask_alone, one) for key, one in contenders.items() if key != MIXED}
    lones: dict[str, list[Report]] = {key: [] for key in alone}
    for number in range(pace.rounds):
        tell(f"round {number + 1} of {pace.rounds}")
        # There and back: who comes late in one round comes early in the next.
        for key in list(loads)[:: -1 if number % 2 else 1]:
            loads[key].append(load(contenders[key], kept, pace.connections, pace.seconds))
        for turn in range(number * TURNS, (number + 1) * TURNS):
            for key, ask in alone.items():
                lones[key].append(ask(pictures, pace.requests, turn * pace.requests))
    return Played(loads, lones)
