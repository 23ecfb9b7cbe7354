"""Decode threads are shared fairly: one user's flood of large pictures does not delay another's small one."""

import asyncio

import pytest

from registry.access.usable_prompts import UsablePrompt
from registry.errors import InvalidPicture
from service.engine import decode
from service.engine.decode import PictureDecoder, decode_picture
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, PausePoint, assert_same, picture, until

pytestmark = pytest.mark.anyio

LARGE = picture(7)  # paused while it is decoded
FLOOD = 12


class SlowDecode:
    """Counts and pauses the decoding of large pictures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pause_point = PausePoint()
        self.started = 0
        monkeypatch.setattr(decode, "decode_picture", self.decode_picture)

    def decode_picture(self, data: bytes, *how: object) -> object:
        self.started += data == LARGE
        if data == LARGE:
            self.pause_point.wait_if_paused()
        return decode_picture(data, *how)  # type: ignore[arg-type]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowDecode:
    return SlowDecode(monkeypatch)


@pytest.fixture
def prompts(harness: EngineHarness) -> list[UsablePrompt]:
    return [harness.add(small_prompt(harness.backbone))]


@pytest.mark.parametrize("threads", [2, 3, None])
async def test_one_users_flood_leaves_a_decode_thread_for_another(
    harness: EngineHarness, prompts: list[UsablePrompt], slow: SlowDecode, threads: int | None
) -> None:
    async with harness.engine(EngineSettings(max_batch=8, decode_threads=threads)) as engine:
        slow.pause_point.pause()
        flood = harness.start(engine, [LARGE] * FLOOD, prompts, user=ANN)
        await slow.pause_point.wait_until_reached()
        try:
            predictions = await harness.predict(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.pause_point.resume()
        await flood

    assert_same(predictions, harness.expect([picture(0)], prompts))


async def test_a_cancelled_request_keeps_its_ticket_while_its_decode_thread_runs(
    harness: EngineHarness, prompts: list[UsablePrompt], slow: SlowDecode
) -> None:
    async with harness.engine(EngineSettings(max_batch=8, decode_threads=2)) as engine:
        slow.pause_point.pause()
        for _ in range(3):
            gone = harness.start(engine, [LARGE] * 2, prompts, user=ANN)
            await until(lambda: engine.stats().active_pictures == 2)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await gone
        await slow.pause_point.wait_until_reached()
        try:
            await harness.predict(engine, [picture(0)], prompts, user=BEN, seconds=30)
        finally:
            slow.pause_point.resume()

        assert slow.started == 1


async def test_a_single_decode_thread_serves_users_round_robin(harness: EngineHarness, slow: SlowDecode) -> None:
    decoder = PictureDecoder(threads=1, max_waiting=100)
    finished: list[str] = []

    async def decode(name: str, data: bytes) -> None:
        await decoder.decode(data, harness.backbone.preprocessing, name, ANN if name == "ann" else BEN)
        finished.append(name)

    slow.pause_point.pause()
    flood = [asyncio.create_task(decode("ann", LARGE)) for _ in range(FLOOD)]
    await slow.pause_point.wait_until_reached()
    single = asyncio.create_task(decode("ben", picture(0)))
    await asyncio.sleep(0)
    slow.pause_point.resume()
    await asyncio.gather(single, *flood)
    decoder.shutdown()

    assert finished.index("ben") <= 2


async def test_an_unreadable_picture_releases_its_ticket(harness: EngineHarness) -> None:
    decoder = PictureDecoder(threads=1, max_waiting=1)
    for _ in range(3):
        with pytest.raises(InvalidPicture, match="this one"):
            await decoder.decode(b"no picture", harness.backbone.preprocessing, "this one", ANN)
    decoder.shutdown()
