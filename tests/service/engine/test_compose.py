"""Small compositions run one after the other; a large one does not delay them."""

import threading

import torch

from registry.access.usable_prompts import UsablePrompt
from service.engine import compose as engine_compose
from service.engine.job import PictureLogits
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.service.engine.prompt_cache_fixtures import owner_of, use


def start(prompt: UsablePrompt, result: PictureLogits, pictures: int) -> threading.Thread:
    arguments = ([prompt], [result] * pictures, "average", "none")
    thread = threading.Thread(target=engine_compose.compose, args=arguments, daemon=True)
    thread.start()
    return thread


def test_a_small_composition_waits_for_another_and_a_large_one_does_not(
    cache: PromptCache, loaded: list[LoadedPrompt]
) -> None:
    prompt, prompts = owner_of(loaded[0]), use(cache, loaded[0]).prompts
    cached = prompts[prompt.digest]
    logits, embedding = torch.zeros(len(cached.labels)), torch.zeros(cached.prototypes.shape[1])
    result = PictureLogits({prompt.digest: logits}, prompts, embedding)
    with engine_compose._small_compositions:
        small, large = start(prompt, result, 1), start(prompt, result, engine_compose.MAX_SMALL_PAIRS + 1)
        large.join(30)
        assert not large.is_alive()
        assert small.is_alive()

    small.join(30)
    assert not small.is_alive()
