"""Lanes compute side by side, with no more threads than there are; a fault in one is nobody else's."""

import asyncio
import threading
import time
from functools import partial

import pytest
import torch
from torch import Tensor

from alacarte.prompting.predict import Answer
from registry.access.usable_set import UsablePrompt
from service.engine import decode
from service.engine.backbones import Backbones
from service.engine.compose import compose
from service.engine.decode import prepare
from service.engine.device import MAX_LANES, lanes_of
from service.engine.engine import Engine
from service.engine.errors import ComputationFailed, Overloaded
from service.engine.job import Said
from service.engine.prompt_cache import Residence
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import ANN, BEN, Stage, picture, same, until

pytestmark = pytest.mark.anyio

TWO = EngineSettings(decode_threads=1, compute_threads=2)


@pytest.fixture
def prompts(stage: Stage) -> list[UsablePrompt]:
    return [stage.add(small_prompt(stage.backbone, seed=seed), source=seed) for seed in range(4)]


async def begin_together(
    stage: Stage, engine: Engine, asked: list[tuple[bytes, list[UsablePrompt]]]
) -> list[asyncio.Task[list[Answer]]]:
    """Questions that wait until all lanes are free, and are then begun by all of them; the gate is closed."""
    stage.passes.close()
    first = asyncio.create_task(stage.ask(engine, [picture(99)], asked[0][1], user=BEN))
    await stage.passes.reached()
    tasks = []
    for number, (image, prompts) in enumerate(asked, 1):
        tasks.append(asyncio.create_task(stage.ask(engine, [image], prompts, user=ANN)))
        await until(partial(has_ready, engine, number))
    stage.passes.open()
    stage.passes.close()
    await first
    return tasks


def has_ready(engine: Engine, count: int) -> bool:
    return engine.facts().ready_pictures == count


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
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []  # pictures of a pass, and the threads that computed them
    embed = stage.backbone.embed

    def noted(images: Tensor) -> Tensor:
        seen.append((len(images), torch.get_num_threads()))
        return embed(images)

    monkeypatch.setattr(stage.backbone, "embed", noted)
    settings = EngineSettings(decode_threads=1, compute_threads=6)
    async with stage.engine(settings) as engine:
        asked = await begin_together(stage, engine, [(picture(n), prompts[n % 2 :]) for n in range(8)])
        for _ in range(MAX_LANES):
            await stage.passes.reached()  # all at once
        stage.passes.open()
        answers = await asyncio.gather(*asked)
        await stage.ask(engine, [picture(9)], prompts)

    assert seen == [(1, 6), *[(2, 1)] * MAX_LANES, (1, 6)]
    for n, answer in enumerate(answers):
        same(answer, stage.expect([picture(n)], prompts[n % 2 :]))


async def test_a_poisonous_picture_fails_alone_in_its_lane(stage: Stage, prompts: list[UsablePrompt]) -> None:
    stage.poison = stage.image(picture(13))
    async with stage.engine(TWO) as engine:
        asked = await begin_together(stage, engine, [(picture(n), prompts) for n in (1, 13, 2, 3)])
        await stage.passes.reached()
        await stage.passes.reached()
        stage.passes.open()
        answers = await asyncio.gather(*asked, return_exceptions=True)

        assert engine.facts().failures == 1
    assert isinstance(answers.pop(1), ComputationFailed)
    for n, answer in zip((1, 2, 3), answers, strict=True):
        assert not isinstance(answer, BaseException)
        same(answer, stage.expect([picture(n)], prompts))


async def test_those_whose_prompts_do_not_fit_beside_anothers_are_answered_after_them(
    stage: Stage, prompts: list[UsablePrompt]
) -> None:
    settings = EngineSettings(prompt_bytes=stage.slots_for(2), decode_threads=1, compute_threads=2)
    async with stage.engine(settings) as engine:
        asked = await begin_together(stage, engine, [(picture(1), prompts[:2]), (picture(2), prompts[2:])])
        await stage.passes.reached()
        await until(lambda: engine.facts().ready_pictures == 1)  # put back
        stage.passes.open()
        answers = await asyncio.gather(*asked)

    assert stage.images == [1, 1, 1]
    for n, own in ((1, prompts[:2]), (2, prompts[2:])):
        same(answers[n - 1], stage.expect([picture(n)], own))


async def test_who_found_no_room_is_not_overtaken_for_ever(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings(prompt_bytes=stage.slots_for(3), decode_threads=1, compute_threads=2)
    many, other = prompts[:2], prompts[2:]
    known = [stage.image(picture(n)) for n in range(6)]
    passes: list[list[int]] = []  # which pictures were in each
    is_put_back = threading.Event()
    embed = stage.backbone.embed

    def noted(images: Tensor) -> Tensor:
        found = embed(images)
        passes.append([n for n, one in enumerate(known) if any(torch.equal(one, image) for image in images)])
        if 0 in passes[-1]:
            assert is_put_back.wait(60)
        return found

    monkeypatch.setattr(stage.backbone, "embed", noted)
    async with stage.engine(settings) as engine:
        # One lane begins with 0 and 1; in the other 2 finds no room beside them, and 3 needs none.
        asked = await begin_together(stage, engine, [(picture(n), other if n == 2 else many) for n in range(4)])
        await stage.passes.reached()
        await stage.passes.reached()
        asked += [asyncio.create_task(stage.ask(engine, [picture(n)], many, user=BEN)) for n in (4, 5)]
        await until(partial(has_ready, engine, 2))
        stage.passes.open()
        try:
            await until(partial(has_ready, engine, 3))
        finally:
            is_put_back.set()
        answers = await asyncio.gather(*asked)

    assert passes[0] == []  # of whom all had waited for
    assert sorted(passes[1:3]) == [[0, 1], [3]]
    assert passes[3] == [2]
    assert sorted(n for later in passes[4:] for n in later) == [4, 5]
    same(answers[2], stage.expect([picture(2)], other))


async def test_who_finds_no_room_though_nobody_else_is_there_is_told_so(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage.engine(TWO) as engine:
        await stage.ask(engine, [picture(0)], prompts)
        with monkeypatch.context() as full:
            full.setattr(Residence, "_seat_one", lambda _, place, *rest: rest[-1].later.append(place))
            with pytest.raises(ComputationFailed):
                await stage.ask(engine, [picture(1)], prompts)

        same(await stage.ask(engine, [picture(1)], prompts), stage.expect([picture(1)], prompts))


async def test_slots_become_narrow_again_though_lanes_are_never_idle(stage: Stage, prompts: list[UsablePrompt]) -> None:
    wide = stage.add(small_prompt(stage.backbone, seed=50, memory=12), source=50)
    settings = EngineSettings(prompt_bytes=stage.slots_for(6), decode_threads=1, compute_threads=2)
    asking = True

    async def ask_on(number: int) -> None:
        while asking:
            await stage.ask(engine, [picture(number)], prompts[:1], user=(ANN, BEN)[number % 2])

    async with stage.engine(settings) as engine:
        await stage.ask(engine, [picture(0)], [wide])
        (residence,) = engine._residences
        assert residence.capacity == 2
        busy = [asyncio.create_task(ask_on(number)) for number in range(6)]
        await until(lambda: residence.count == 2)
        engine.evict(lambda prompt: prompt.source_id.int == 50)
        await until(lambda: residence.capacity == 6)
        asking = False
        await asyncio.gather(*busy)


async def test_when_a_lane_ends_the_others_finish_what_they_have_begun(
    stage: Stage, prompts: list[UsablePrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    ending = stage.image(picture(13))
    embed = stage.backbone.embed

    def end(images: Tensor) -> Tensor:
        found = embed(images)
        if any(torch.equal(image, ending) for image in images):
            raise Ended
        return found

    monkeypatch.setattr(stage.backbone, "embed", end)
    async with stage.engine(TWO) as engine:
        asked = await begin_together(stage, engine, [(picture(n), prompts) for n in (13, 1)])
        await stage.passes.reached()
        await stage.passes.reached()
        waiting = asyncio.create_task(stage.ask(engine, [picture(2)], prompts, user=BEN))
        await until(lambda: engine.facts().ready_pictures == 1)
        stage.passes.open()

        with pytest.raises(ComputationFailed, match="Ended"):
            await asked[0]
        same(await asked[1], stage.expect([picture(1)], prompts))
        found = (await asyncio.gather(waiting, return_exceptions=True))[0]
        # Whichever lane was the first; one that took it and missed the prompts of the pass that failed, asked in vain.
        assert isinstance(found, ComputationFailed | Overloaded | list)
        await until(lambda: not engine.is_well)
        with pytest.raises(Overloaded):
            await stage.ask(engine, [picture(2)], prompts)


async def test_only_the_device_computes_with_several_threads(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    embed = stage.backbone.embed

    def note(who: str) -> None:
        seen[who] = torch.get_num_threads()

    def noted_embed(images: Tensor) -> Tensor:
        note("device")
        return embed(images)

    def noted_prepare(*arguments: object) -> Tensor:
        note("decoder")
        return prepare(*arguments)  # type: ignore[arg-type]

    def read(prompt: UsablePrompt) -> bytes:
        note("loader")
        return stage.read(prompt)

    monkeypatch.setattr(stage.backbone, "embed", noted_embed)
    monkeypatch.setattr(decode, "prepare", noted_prepare)
    settings = EngineSettings(decode_threads=1, compute_threads=3)
    before = torch.get_num_threads()
    prompt = stage.add(small_prompt(stage.backbone))

    def compose_noted(logits: list[Said]) -> list[Answer]:
        answers = compose([prompt], logits, "average", "none")
        note("composer")
        return answers

    async with Engine(Backbones(settings, lambda *_: stage.backbone), read, settings) as engine:
        for number in range(2):  # also after the others have chosen theirs
            deadline = time.monotonic() + 60
            logits = await engine.run(stage.task, [picture(number)], [prompt], user=ANN, deadline=deadline)
            await asyncio.to_thread(compose_noted, logits)
            assert seen == {"decoder": 1, "loader": 1, "device": 3, "composer": 1}
            seen = {"loader": seen["loader"]}  # it reads once

    assert torch.get_num_threads() == before
