"""Who is asked when in a round of the bench; what they do is made up."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from bench.serving import schedule
from bench.serving.bare_model import BareModel
from bench.serving.contenders import MIXED, TRACED
from bench.serving.load import Contender, Loaded
from bench.serving.processes.load_client import Report
from bench.serving.schedule import BARE, TURNS, Pace, play
from bench.serving.server_process import Server


@pytest.fixture
def contenders() -> Iterator[dict[str, Contender]]:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        names = ("20", MIXED, TRACED, "litserve")
        yield {name: Contender(name, Server(name, 1, process)) for name in names}


def test_everyone_is_loaded_there_and_back_and_asked_alone_about_the_same_pictures(
    contenders: dict[str, Contender], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    asked: list[tuple[str, int, int]] = []

    def load(contender: Contender, *_: object) -> Loaded:
        loaded.append(contender.name)
        return Loaded(1.0, [1.0], 1.0, None, None)

    def ask(contender: Contender, _: Sequence[bytes], requests: int, start: int) -> Report:
        asked.append((contender.name, requests, start))
        return Report(0.0, 1.0, [0.0], [1.0])

    monkeypatch.setattr(schedule, "load", load)
    monkeypatch.setattr(schedule, "ask_alone", ask)
    monkeypatch.setattr(
        schedule, "compute_alone", lambda _, *rest: ask(Contender(BARE, contenders["20"].server), *rest)
    )
    said: list[str] = []

    played = play(contenders, cast(BareModel, None), [b""], Path(), Pace(2, 32, 1.0, 7), said.append)

    assert loaded == ["20", MIXED, "litserve", "litserve", MIXED, "20"]  # the traced one is never loaded
    assert [name for name, _, _ in asked] == [BARE, "20", TRACED, "litserve"] * TURNS * 2
    starts = [[start for name, _, start in asked if name == each] for each in (BARE, "20", "litserve")]
    assert starts == [[7 * turn for turn in range(2 * TURNS)]] * 3
    assert {key: len(reports) for key, reports in played.lones.items()}[BARE] == 2 * TURNS
    assert said == ["round 1 of 2", "round 2 of 2"]
