"""Helpers of the prompt cache's tests: loaded prompts, requests of a batch, and checks of what is in the slots."""

from collections.abc import Sequence

import torch

from alacarte.prompting.attention.prompt_slots import precompute
from registry.access.usable_prompts import UsablePrompt
from service.engine.prompt_cache import BatchPlacement, CachedPrompt, PromptCache
from service.engine.prompt_loader import LoadedPrompt, PromptPredicate
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness


def load(harness: EngineHarness, prompt: UsablePrompt) -> LoadedPrompt:
    stored = harness.prompts[str(prompt.id)]
    ready = precompute(harness.backbone, stored.tensors)
    return LoadedPrompt(prompt.digest, ready, stored.metadata.labels, stored.tensors.prototypes, {prompt.id: prompt})


def load_wide(harness: EngineHarness) -> LoadedPrompt:
    """A prompt of source 50 that is wider than the default slots."""
    return load(harness, harness.add(small_prompt(harness.backbone, seed=50, memory=12), source=50))


def owner_of(prompt: LoadedPrompt) -> UsablePrompt:
    (owner,) = prompt.owners.values()
    return owner


def from_source(source: int) -> PromptPredicate:
    return lambda prompt: prompt.source_id.int == source


def request(*prompts: LoadedPrompt) -> tuple[list[str], dict[str, LoadedPrompt]]:
    """A picture that brings all its prompts along."""
    return [prompt.digest for prompt in prompts], {prompt.digest: prompt for prompt in prompts}


def place_and_release(cache: PromptCache, *requests: tuple[list[str], dict[str, LoadedPrompt]]) -> BatchPlacement:
    placement = cache.place(requests)
    cache.release(placement)
    return placement


def use(cache: PromptCache, *prompts: LoadedPrompt) -> BatchPlacement:
    """Place and release a batch of one picture."""
    return place_and_release(cache, request(*prompts))


def cached(cache: PromptCache, prompts: Sequence[LoadedPrompt]) -> list[int]:
    """The indices of the prompts that are cached."""
    return [n for n, prompt in enumerate(prompts) if not cache.missing([owner_of(prompt)])]


def new_cache(harness: EngineHarness, slots: int) -> PromptCache:
    cache = PromptCache(harness.backbone, harness.slots_for(slots))
    assert cache.capacity == slots
    return cache


def is_cleared(cache: PromptCache, prompt: CachedPrompt) -> bool:
    pool, slot = cache.place([]).pool, prompt.slot_index
    return not any(tensor.any() for tensor in (pool.tokens[slot], pool.keys[:, slot], pool.values[:, slot]))


def has_own_numbers(placement: BatchPlacement, prompt: LoadedPrompt) -> bool:
    """Whether the prompt's slot holds its keys and values."""
    slot = placement.prompts[prompt.digest].slot_index
    assert prompt.ready.keys_values is not None
    stored = torch.stack([placement.pool.keys[:, slot], placement.pool.values[:, slot]], dim=1)
    return torch.equal(stored, prompt.ready.keys_values)


def is_intact(cache: PromptCache, prompt: LoadedPrompt) -> bool:
    """Whether the prompt is cached with its own numbers."""
    return has_own_numbers(place_and_release(cache, ([prompt.digest], {})), prompt)
