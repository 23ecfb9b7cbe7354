"""The order of contenders in the rounds of the benchmark, with fake measurements."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from bench.serving import schedule
from bench.serving.bare_model import BareModel
from bench.serving.contenders import MIXED, TRACED
from bench.serving.load import Contender, LoadResult
from bench.serving.processes.load_client import LoadReport
from bench.serving.schedule import BARE, SINGLE_TURNS, ScheduleOptions, run_rounds
from bench.serving.server_process import ServerProcess


@pytest.fixture
def contenders() -> Iterator[dict[str, Contender]]:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        names = ("20", MIXED, TRACED, "litserve")
        yield {name: Contender(name, ServerProcess(name, 1, process)) for name in names}


def test_load_alternates_its_direction_and_single_requests_use_the_same_pictures(
    contenders: dict[str, Contender], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    singles: list[tuple[str, int, int]] = []

    def fake_load(contender: Contender, *_: object) -> LoadResult:
        loaded.append(contender.name)
        return LoadResult(1.0, [1.0], 1.0, None, None)

    def fake_single(contender: Contender, _: Sequence[bytes], requests: int, start: int) -> LoadReport:
        singles.append((contender.name, requests, start))
        return LoadReport(0.0, 1.0, [0.0], [1.0])

    monkeypatch.setattr(schedule, "measure_load", fake_load)
    monkeypatch.setattr(schedule, "send_single_requests", fake_single)
    monkeypatch.setattr(
        schedule, "compute_single", lambda _, *rest: fake_single(Contender(BARE, contenders["20"].server), *rest)
    )
    logged: list[str] = []

    result = run_rounds(contenders, cast(BareModel, None), [b""], Path(), ScheduleOptions(2, 32, 1.0, 7), logged.append)

    assert loaded == ["20", MIXED, "litserve", "litserve", MIXED, "20"]  # the traced service is never under load
    assert [name for name, _, _ in singles] == [BARE, "20", TRACED, "litserve"] * SINGLE_TURNS * 2
    starts = [[start for name, _, start in singles if name == each] for each in (BARE, "20", "litserve")]
    assert starts == [[7 * number for number in range(2 * SINGLE_TURNS)]] * 3
    assert {key: len(reports) for key, reports in result.singles.items()}[BARE] == 2 * SINGLE_TURNS
    assert logged == ["round 1 of 2", "round 2 of 2"]
