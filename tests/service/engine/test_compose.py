"""Small answers are composed one after the other; a large one keeps nobody waiting."""

import threading

import pytest
import torch

from registry.access.usable_set import UsablePrompt
from service.engine import compose as engine_compose
from service.engine.job import PictureLogits
from service.engine.prompt_cache import CachedPrompt
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import loaded, residence_of, use


@pytest.fixture
def prompt(harness: EngineHarness) -> UsablePrompt:
    return harness.add(small_prompt(harness.backbone))


@pytest.fixture
def resident(harness: EngineHarness, prompt: UsablePrompt) -> CachedPrompt:
    return use(residence_of(harness, slots=1), loaded(harness, prompt)).residents[prompt.digest]


def compose(prompt: UsablePrompt, resident: CachedPrompt, pictures: int) -> threading.Thread:
    logits, embedding = torch.zeros(len(resident.labels)), torch.zeros(resident.prototypes.shape[1])
    said = [PictureLogits({prompt.digest: logits}, {prompt.digest: resident}, embedding)] * pictures
    thread = threading.Thread(target=engine_compose.compose, args=([prompt], said, "average", "none"), daemon=True)
    thread.start()
    return thread


def test_a_small_answer_waits_for_another_and_a_large_one_does_not(
    prompt: UsablePrompt, resident: CachedPrompt
) -> None:
    with engine_compose._composing_small:
        small, large = compose(prompt, resident, 1), compose(prompt, resident, engine_compose.SMALL + 1)
        large.join(30)
        assert not large.is_alive()
        assert small.is_alive()

    small.join(30)
    assert not small.is_alive()
