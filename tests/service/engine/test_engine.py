"""A prediction depends only on the picture and the caller's prompts, whatever else is in its batch."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.metadata import VARIANTS
from registry.access.usable_prompts import UsablePrompt
from registry.errors import Invalid, InvalidPicture
from service.engine.decode import decode_picture
from service.engine.errors import PromptUnusable
from service.engine.settings import EngineSettings
from tests.prompting.reference import small_backbone, small_prompt
from tests.service.engine.fixtures import ANN, BEN, EngineHarness, assert_same, picture, until

pytestmark = pytest.mark.anyio

COMPOSITIONS = [how for how in product(get_args(Composition), get_args(Weighting)) if how != ("vote", "prototypes")]
LABELS = [("cat", "dog", "owl"), ("dog", "emu"), ("ant", "cat")]


def add_mixed_prompts(harness: EngineHarness) -> list[UsablePrompt]:
    """Prompts of every variant and of several widths, whose labels overlap in part."""
    return [
        harness.add(
            small_prompt(harness.backbone, VARIANTS[seed % 4], seed, memory=1 + seed % 5, labels=LABELS[seed % 3])
        )
        for seed in range(8)
    ]


request_lists = st.lists(
    st.tuples(
        st.lists(st.integers(0, 5), min_size=1, max_size=3),  # pictures
        st.lists(st.integers(0, 7), min_size=1, unique=True),  # prompts, whose order changes nothing
        st.sampled_from(COMPOSITIONS),
        st.sampled_from([ANN, BEN]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=request_lists,
    slots=st.sampled_from([1, 3, 100]),
    batch=st.sampled_from([1, 3, 16]),
    workers=st.integers(1, 3),
)
def test_every_prediction_equals_the_predictors_in_any_batch_and_with_any_cache_size(
    requests: list[tuple[list[int], list[int], tuple[Composition, Weighting], UUID]],
    slots: int,
    batch: int,
    workers: int,
    backbone: Backbone,
) -> None:
    harness = EngineHarness(backbone)
    prompts = add_mixed_prompts(harness)
    sizes = EngineSettings(
        prompt_cache_bytes=harness.slots_for(slots),
        max_batch=batch,
        max_pairs=20,
        decode_threads=1,
        compute_threads=workers,
    )

    async def run() -> None:
        async with harness.engine(sizes) as engine:
            running = [
                harness.start(
                    engine,
                    [picture(seed) for seed in pictures],
                    [prompts[number] for number in numbers],
                    composition=how[0],
                    weighting=how[1],
                    user=user,
                )
                for pictures, numbers, how, user in requests
            ]
            for (pictures, numbers, how, _), prediction in zip(requests, running, strict=True):
                ordered = [prompts[number] for number in sorted(numbers)]
                assert_same(await prediction, harness.expect([picture(seed) for seed in pictures], ordered, *how))
            assert await harness.predict(engine, [], prompts) == []

    asyncio.run(run())


async def test_waiting_requests_share_one_pass(harness: EngineHarness) -> None:
    prompts = add_mixed_prompts(harness)
    async with harness.engine() as engine:
        await harness.predict(engine, [picture(0)], prompts)
        first = await harness.start_paused(engine, [picture(1)], prompts)
        others = [harness.start(engine, [picture(n)], prompts[n:], user=BEN) for n in (2, 3, 4)]
        await until(lambda: engine.stats().ready_pictures == 3)
        harness.forward_pause.resume()
        await asyncio.gather(first, *others)

    assert harness.pass_sizes == [1, 1, 3]
    assert [batch.pairs for batch in harness.observed] == [8, 8, 6 + 5 + 4]


async def test_the_same_bytes_under_two_ids_are_two_members(harness: EngineHarness) -> None:
    prompt = small_prompt(harness.backbone)
    twins = [harness.add(prompt, source=1), harness.add(prompt, source=2)]
    async with harness.engine() as engine:
        await harness.check(engine, [picture(0)], twins)


async def test_an_unreadable_picture_is_named_and_fails_only_its_own_request(harness: EngineHarness) -> None:
    prompts = add_mixed_prompts(harness)
    async with harness.engine() as engine:
        good = harness.start(engine, [picture(0)], prompts, user=BEN)
        with pytest.raises(InvalidPicture, match="picture 2 of 3 cannot be read") as caught:
            await harness.predict(engine, [picture(1), b"no picture", picture(2)], prompts)
        assert_same(await good, harness.expect([picture(0)], prompts))
        assert engine.stats().active_pictures == 0

    assert caught.value.status == 422


async def test_a_prompt_of_another_backbone_is_refused(harness: EngineHarness) -> None:
    foreign = harness.add(small_prompt(small_backbone("plain", seed=1)))
    async with harness.engine() as engine:
        with pytest.raises(PromptUnusable, match="trained on another backbone"):
            await harness.predict(engine, [picture(0)], [foreign])


async def test_a_damaged_prompt_is_refused_and_the_next_request_is_computed(harness: EngineHarness) -> None:
    sound, damaged = add_mixed_prompts(harness)[:2]
    harness.objects[damaged.id] = harness.objects[damaged.id][:-1]
    async with harness.engine() as engine:
        with pytest.raises(PromptUnusable, match=str(damaged.id)):
            await harness.predict(engine, [picture(0)], [sound, damaged])

        await harness.check(engine, [picture(0)], [sound])


@pytest.mark.parametrize(
    ("pictures", "prompts", "options", "message"),
    [
        (1, 0, {}, "no prompts"),
        (3, 1, {}, "3 pictures exceed the limit of 2"),
        (1, 8, {"composition": "vote", "weighting": "prototypes"}, "votes cannot be weighted"),
        (1, 8, {"composition": "median"}, "no composition 'median'"),
        (1, 8, {"weighting": "x"}, "no weighting 'x'"),
    ],
)
async def test_an_invalid_request_is_refused(
    harness: EngineHarness, pictures: int, prompts: int, options: dict[str, Any], message: str
) -> None:
    async with harness.engine(EngineSettings(max_waiting=2, decode_threads=1)) as engine:
        with pytest.raises(Invalid, match=message):
            await harness.predict(engine, [picture(0)] * pictures, add_mixed_prompts(harness)[:prompts], **options)


def test_pictures_are_decoded_the_same_in_many_threads(backbone: Backbone) -> None:
    pictures = [picture(seed) for seed in range(12)] * 4
    alone = [decode_picture(data, backbone.preprocessing, "it") for data in pictures]

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda data: decode_picture(data, backbone.preprocessing, "it"), pictures))

    assert all(one.equal(other) for one, other in zip(alone, together, strict=True))
