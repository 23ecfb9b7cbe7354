"""Lanes compute side by side, with no more threads than there are; a fault in one is nobody else's."""

import asyncio
import threading
import time
from functools import partial

import pytest
import torch
from torch import Tensor

from alacarte.prompting.predict import ImagePrediction
from registry.access.usable_set import UsablePrompt
from service.engine import decode
from service.engine.backbone_cache import BackboneCache
from service.engine.compose import compose
from service.engine.decode import decode_picture
from service.engine.device import MAX_LANES, lanes_of
from service.engine.engine import Engine
from service.engine.errors import ComputationFailed, Overloaded
from service.engine.job import PictureLogits
from service.engine.prompt_cache import PromptCache
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, picture, same, until

pytestmark = pytest.mark.anyio

TWO = EngineSettings(decode_threads=1, compute_threads=2)


@pytest.fixture
def prompts(harness: EngineHarness) -> list[UsablePrompt]:
    return [harness.add(small_prompt(harness.backbone, seed=seed), source=seed) for seed in range(4)]


async def begin_together(
    harness: EngineHarness, engine: Engine, asked: list[tuple[bytes, list[UsablePrompt]]]
) -> list[asyncio.Task[list[ImagePrediction]]]:
    """Questions that wait until all lanes are free, and are then begun by all of them; the pause_point is closed."""
    harness.forward_pause.pause()
    first = asyncio.create_task(harness.ask(engine, [picture(99)], asked[0][1], user=BEN))
    await harness.forward_pause.wait_until_reached()
    tasks = []
    for number, (image, prompts) in enumerate(asked, 1):
        tasks.append(asyncio.create_task(harness.ask(engine, [image], prompts, user=ANN)))
        await until(partial(has_ready, engine, number))
    harness.forward_pause.resume()
    harness.forward_pause.pause()
    await first
    return tasks


def has_ready(engine: Engine, count: int) -> bool:
    return engine.stats().ready_pictures == count


@pytest.mark.parametrize(
    ("device", "threads", "batch", "lanes"),
    [
        ("cpu", 1, 16, 1),
        ("cpu", 2, 16, 2),
        ("cpu", 2, 1, 1),
        ("cpu", 64, 16, MAX_LANES),
        ("cuda", 8, 64, 1),
        ("cuda:1", 8, 64, 1),
    ],
)
async def test_a_cpu_has_lanes_and_an_accelerator_one(device: str, threads: int, batch: int, lanes: int) -> None:
    assert lanes_of(EngineSettings(device=device, batch_pictures=batch), threads) == lanes


async def test_batches_are_computed_side_by_side_each_with_its_share_of_the_threads(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []  # pictures of a pass, and the threads that computed them
    embed = harness.backbone.embed

    def noted(images: Tensor) -> Tensor:
        seen.append((len(images), torch.get_num_threads()))
        return embed(images)

    monkeypatch.setattr(harness.backbone, "embed", noted)
    settings = EngineSettings(decode_threads=1, compute_threads=6)
    async with harness.engine(settings) as engine:
        asked = await begin_together(harness, engine, [(picture(n), prompts[n % 2 :]) for n in range(8)])
        for _ in range(MAX_LANES):
            await harness.forward_pause.wait_until_reached()  # all at once
        harness.forward_pause.resume()
        answers = await asyncio.gather(*asked)
        await harness.ask(engine, [picture(9)], prompts)

    assert seen == [(1, 6), *[(2, 1)] * MAX_LANES, (1, 6)]
    for n, answer in enumerate(answers):
        same(answer, harness.expect([picture(n)], prompts[n % 2 :]))


async def test_a_poisonous_picture_fails_alone_in_its_lane(harness: EngineHarness, prompts: list[UsablePrompt]) -> None:
    harness.poison = harness.image(picture(13))
    async with harness.engine(TWO) as engine:
        asked = await begin_together(harness, engine, [(picture(n), prompts) for n in (1, 13, 2, 3)])
        await harness.forward_pause.wait_until_reached()
        await harness.forward_pause.wait_until_reached()
        harness.forward_pause.resume()
        answers = await asyncio.gather(*asked, return_exceptions=True)

        assert engine.stats().failures == 1
    assert isinstance(answers.pop(1), ComputationFailed)
    for n, answer in zip((1, 2, 3), answers, strict=True):
        assert not isinstance(answer, BaseException)
        same(answer, harness.expect([picture(n)], prompts))


async def test_those_whose_prompts_do_not_fit_beside_anothers_are_answered_after_them(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    settings = EngineSettings(prompt_bytes=harness.slots_for(2), decode_threads=1, compute_threads=2)
    async with harness.engine(settings) as engine:
        asked = await begin_together(harness, engine, [(picture(1), prompts[:2]), (picture(2), prompts[2:])])
        await harness.forward_pause.wait_until_reached()
        await until(lambda: engine.stats().ready_pictures == 1)  # put back
        harness.forward_pause.resume()
        answers = await asyncio.gather(*asked)

    assert harness.images == [1, 1, 1]
    for n, own in ((1, prompts[:2]), (2, prompts[2:])):
        same(answers[n - 1], harness.expect([picture(n)], own))


async def test_who_found_no_room_is_not_overtaken_for_ever(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(prompt_bytes=harness.slots_for(3), decode_threads=1, compute_threads=2)
    many, other = prompts[:2], prompts[2:]
    known = [harness.image(picture(n)) for n in range(6)]
    passes: list[list[int]] = []  # which pictures were in each
    is_put_back = threading.Event()
    embed = harness.backbone.embed

    def noted(images: Tensor) -> Tensor:
        found = embed(images)
        passes.append([n for n, one in enumerate(known) if any(torch.equal(one, image) for image in images)])
        if 0 in passes[-1]:
            assert is_put_back.wait(60)
        return found

    monkeypatch.setattr(harness.backbone, "embed", noted)
    async with harness.engine(settings) as engine:
        # One lane begins with 0 and 1; in the other 2 finds no room beside them, and 3 needs none.
        asked = await begin_together(harness, engine, [(picture(n), other if n == 2 else many) for n in range(4)])
        await harness.forward_pause.wait_until_reached()
        await harness.forward_pause.wait_until_reached()
        asked += [asyncio.create_task(harness.ask(engine, [picture(n)], many, user=BEN)) for n in (4, 5)]
        await until(partial(has_ready, engine, 2))
        harness.forward_pause.resume()
        try:
            await until(partial(has_ready, engine, 3))
        finally:
            is_put_back.set()
        answers = await asyncio.gather(*asked)

    assert passes[0] == []  # of whom all had waited for
    assert sorted(passes[1:3]) == [[0, 1], [3]]
    assert passes[3] == [2]
    assert sorted(n for later in passes[4:] for n in later) == [4, 5]
    same(answers[2], harness.expect([picture(2)], other))


async def test_who_finds_no_room_though_nobody_else_is_there_is_told_so(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.engine(TWO) as engine:
        await harness.ask(engine, [picture(0)], prompts)
        with monkeypatch.context() as full:
            full.setattr(PromptCache, "_seat_one", lambda _, place, *rest: rest[-1].later.append(place))
            with pytest.raises(ComputationFailed):
                await harness.ask(engine, [picture(1)], prompts)

        same(await harness.ask(engine, [picture(1)], prompts), harness.expect([picture(1)], prompts))


async def test_slots_become_narrow_again_though_lanes_are_never_idle(
    harness: EngineHarness, prompts: list[UsablePrompt]
) -> None:
    wide = harness.add(small_prompt(harness.backbone, seed=50, memory=12), source=50)
    settings = EngineSettings(prompt_bytes=harness.slots_for(6), decode_threads=1, compute_threads=2)
    asking = True

    async def ask_on(number: int) -> None:
        while asking:
            await harness.ask(engine, [picture(number)], prompts[:1], user=(ANN, BEN)[number % 2])

    async with harness.engine(settings) as engine:
        await harness.ask(engine, [picture(0)], [wide])
        (residence,) = engine._residences
        assert residence.capacity == 2
        busy = [asyncio.create_task(ask_on(number)) for number in range(6)]
        await until(lambda: residence.count == 2)
        engine.evict(lambda prompt: prompt.source_id.int == 50)
        await until(lambda: residence.capacity == 6)
        asking = False
        await asyncio.gather(*busy)


async def test_when_a_lane_ends_the_others_finish_what_they_have_begun(
    harness: EngineHarness, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    ending = harness.image(picture(13))
    embed = harness.backbone.embed

    def end(images: Tensor) -> Tensor:
        found = embed(images)
        if any(torch.equal(image, ending) for image in images):
            raise Ended
        return found

    monkeypatch.setattr(harness.backbone, "embed", end)
    async with harness.engine(TWO) as engine:
        asked = await begin_together(harness, engine, [(picture(n), prompts) for n in (13, 1)])
        await harness.forward_pause.wait_until_reached()
        await harness.forward_pause.wait_until_reached()
        waiting = asyncio.create_task(harness.ask(engine, [picture(2)], prompts, user=BEN))
        await until(lambda: engine.stats().ready_pictures == 1)
        harness.forward_pause.resume()

        with pytest.raises(ComputationFailed, match="Ended"):
            await asked[0]
        same(await asked[1], harness.expect([picture(1)], prompts))
        found = (await asyncio.gather(waiting, return_exceptions=True))[0]
        # Whichever lane was the first; one that took it and missed the prompts of the pass that failed, asked in vain.
        assert isinstance(found, ComputationFailed | Overloaded | list)
        await until(lambda: not engine.is_healthy)
        with pytest.raises(Overloaded):
            await harness.ask(engine, [picture(2)], prompts)


async def test_only_the_device_computes_with_several_threads(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, int] = {}
    embed = harness.backbone.embed

    def note(who: str) -> None:
        seen[who] = torch.get_num_threads()

    def noted_embed(images: Tensor) -> Tensor:
        note("device")
        return embed(images)

    def noted_prepare(*arguments: object) -> Tensor:
        note("decoder")
        return decode_picture(*arguments)  # type: ignore[arg-type]

    def read(prompt: UsablePrompt) -> bytes:
        note("loader")
        return harness.read(prompt)

    monkeypatch.setattr(harness.backbone, "embed", noted_embed)
    monkeypatch.setattr(decode, "decode_picture", noted_prepare)
    settings = EngineSettings(decode_threads=1, compute_threads=3)
    before = torch.get_num_threads()
    prompt = harness.add(small_prompt(harness.backbone))

    def compose_noted(logits: list[PictureLogits]) -> list[ImagePrediction]:
        answers = compose([prompt], logits, "average", "none")
        note("composer")
        return answers

    async with Engine(BackboneCache(settings, lambda *_: harness.backbone), read, settings) as engine:
        for number in range(2):  # also after the others have chosen theirs
            deadline = time.monotonic() + 60
            logits = await engine.run(harness.task, [picture(number)], [prompt], user=ANN, deadline=deadline)
            await asyncio.to_thread(compose_noted, logits)
            assert seen == {"decoder": 1, "loader": 1, "device": 3, "composer": 1}
            seen = {"loader": seen["loader"]}  # it reads once

    assert torch.get_num_threads() == before
