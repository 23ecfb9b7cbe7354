"""Decoding is shared fairly: nobody's flood of large pictures keeps another's small one waiting."""

import asyncio

import pytest

from registry.access.usable_set import UsablePrompt
from registry.errors import PictureUnreadable
from service.engine import decode
from service.engine.decode import Decoders, prepare
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, Gate, Stage, picture, same, until

pytestmark = pytest.mark.anyio

LARGE = picture(7)  # takes until the gate opens
FLOOD = 12


class Decoding:
    """What is being decoded, and a gate for large pictures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = Gate()
        self.begun = 0
        monkeypatch.setattr(decode, "prepare", self.prepare)

    def prepare(self, data: bytes, *how: object) -> object:
        self.begun += data == LARGE
        if data == LARGE:
            self.gate.pass_through()
        return prepare(data, *how)  # type: ignore[arg-type]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Decoding:
    return Decoding(monkeypatch)


@pytest.fixture
def prompts(stage: Stage) -> list[UsablePrompt]:
    return [stage.add(small_prompt(stage.backbone))]


@pytest.mark.parametrize("threads", [2, 3, None])
async def test_one_users_flood_leaves_a_decoder_for_another(
    stage: Stage, prompts: list[UsablePrompt], slow: Decoding, threads: int | None
) -> None:
    async with stage.engine(EngineSettings(batch_pictures=8, decode_threads=threads)) as engine:
        slow.gate.close()
        flood = asyncio.create_task(stage.ask(engine, [LARGE] * FLOOD, prompts, user=ANN))
        await slow.gate.reached()
        try:
            answers = await stage.ask(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.gate.open()
        await flood

    same(answers, stage.expect([picture(0)], prompts))


async def test_who_has_gone_away_keeps_the_decoders_that_still_work_for_them(
    stage: Stage, prompts: list[UsablePrompt], slow: Decoding
) -> None:
    async with stage.engine(EngineSettings(batch_pictures=8, decode_threads=2)) as engine:
        slow.gate.close()
        for _ in range(3):
            gone = asyncio.create_task(stage.ask(engine, [LARGE] * 2, prompts, user=ANN))
            await until(lambda: engine.facts().pictures_under_way == 2)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
        await slow.gate.reached()
        try:
            await stage.ask(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.gate.open()

        assert slow.begun == 1


async def test_a_single_decoder_serves_users_in_turns(stage: Stage, slow: Decoding) -> None:
    decoders = Decoders(threads=1, waiting=100)
    finished: list[str] = []

    async def decode(name: str, data: bytes) -> None:
        await decoders.decode(data, stage.backbone.preprocessing, name, ANN if name == "ann" else BEN)
        finished.append(name)

    slow.gate.close()
    flood = [asyncio.create_task(decode("ann", LARGE)) for _ in range(FLOOD)]
    await slow.gate.reached()
    single = asyncio.create_task(decode("ben", picture(0)))
    await asyncio.sleep(0)
    slow.gate.open()
    await asyncio.gather(single, *flood)
    decoders.shutdown()

    assert finished.index("ben") <= 2


async def test_a_picture_that_cannot_be_decoded_gives_its_turn_back(stage: Stage) -> None:
    decoders = Decoders(threads=1, waiting=1)
    for _ in range(3):
        with pytest.raises(PictureUnreadable, match="this one"):
            await decoders.decode(b"no picture", stage.backbone.preprocessing, "this one", ANN)
    decoders.shutdown()
