"""Decoding is shared fairly: nobody's flood of large pictures keeps another's small one waiting."""

import asyncio

import pytest

from registry.access.usable_set import UsablePrompt
from registry.errors import InvalidPicture
from service.engine import decode
from service.engine.decode import Decoders, decode_picture
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, PausePoint, picture, same, until

pytestmark = pytest.mark.anyio

LARGE = picture(7)  # takes until the pause_point opens
FLOOD = 12


class Decoding:
    """What is being decoded, and a pause_point for large pictures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pause_point = PausePoint()
        self.begun = 0
        monkeypatch.setattr(decode, "decode_picture", self.decode_picture)

    def decode_picture(self, data: bytes, *how: object) -> object:
        self.begun += data == LARGE
        if data == LARGE:
            self.pause_point.wait_if_paused()
        return decode_picture(data, *how)  # type: ignore[arg-type]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Decoding:
    return Decoding(monkeypatch)


@pytest.fixture
def prompts(harness: EngineHarness) -> list[UsablePrompt]:
    return [harness.add(small_prompt(harness.backbone))]


@pytest.mark.parametrize("threads", [2, 3, None])
async def test_one_users_flood_leaves_a_decoder_for_another(
    harness: EngineHarness, prompts: list[UsablePrompt], slow: Decoding, threads: int | None
) -> None:
    async with harness.engine(EngineSettings(batch_pictures=8, decode_threads=threads)) as engine:
        slow.pause_point.pause()
        flood = asyncio.create_task(harness.ask(engine, [LARGE] * FLOOD, prompts, user=ANN))
        await slow.pause_point.wait_until_reached()
        try:
            answers = await harness.ask(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.pause_point.resume()
        await flood

    same(answers, harness.expect([picture(0)], prompts))


async def test_who_has_gone_away_keeps_the_decoders_that_still_work_for_them(
    harness: EngineHarness, prompts: list[UsablePrompt], slow: Decoding
) -> None:
    async with harness.engine(EngineSettings(batch_pictures=8, decode_threads=2)) as engine:
        slow.pause_point.pause()
        for _ in range(3):
            gone = asyncio.create_task(harness.ask(engine, [LARGE] * 2, prompts, user=ANN))
            await until(lambda: engine.stats().active_pictures == 2)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
        await slow.pause_point.wait_until_reached()
        try:
            await harness.ask(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.pause_point.resume()

        assert slow.begun == 1


async def test_a_single_decoder_serves_users_in_turns(harness: EngineHarness, slow: Decoding) -> None:
    decoders = Decoders(threads=1, waiting=100)
    finished: list[str] = []

    async def decode(name: str, data: bytes) -> None:
        await decoders.decode(data, harness.backbone.preprocessing, name, ANN if name == "ann" else BEN)
        finished.append(name)

    slow.pause_point.pause()
    flood = [asyncio.create_task(decode("ann", LARGE)) for _ in range(FLOOD)]
    await slow.pause_point.wait_until_reached()
    single = asyncio.create_task(decode("ben", picture(0)))
    await asyncio.sleep(0)
    slow.pause_point.resume()
    await asyncio.gather(single, *flood)
    decoders.shutdown()

    assert finished.index("ben") <= 2


async def test_a_picture_that_cannot_be_decoded_gives_its_turn_back(harness: EngineHarness) -> None:
    decoders = Decoders(threads=1, waiting=1)
    for _ in range(3):
        with pytest.raises(InvalidPicture, match="this one"):
            await decoders.decode(b"no picture", harness.backbone.preprocessing, "this one", ANN)
    decoders.shutdown()
