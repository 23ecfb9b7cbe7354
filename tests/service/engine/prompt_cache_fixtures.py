"""What tests of the slots of a device share: prompts on their way, batches, and looks at what is seated."""

from collections.abc import Sequence

import torch

from alacarte.prompting.attention.prompt_slots import precompute
from registry.access.usable_set import UsablePrompt
from service.engine.prompt_cache import BatchPlacement, CachedPrompt, PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.service.engine.fixtures import EngineHarness


def loaded(harness: EngineHarness, prompt: UsablePrompt) -> LoadedPrompt:
    read = harness.prompts[str(prompt.id)]
    ready = precompute(harness.backbone, read.tensors)
    return LoadedPrompt(prompt.digest, ready, read.metadata.labels, read.tensors.prototypes, {prompt.id: prompt})


def usable_of(prompt: LoadedPrompt) -> UsablePrompt:
    (usable,) = prompt.owners.values()
    return usable


def is_of(source: int, prompt: UsablePrompt) -> bool:
    return prompt.source_id.int == source


def ask(*prompts: LoadedPrompt) -> tuple[list[str], dict[str, LoadedPrompt]]:
    """A picture that has fetched all it asks for."""
    return [prompt.digest for prompt in prompts], {prompt.digest: prompt for prompt in prompts}


def use(residence: PromptCache, *prompts: LoadedPrompt) -> BatchPlacement:
    """A whole batch of one picture."""
    seating, _ = residence.seat([ask(*prompts)])
    residence.release(seating)
    return seating


def here(residence: PromptCache, prompts: Sequence[LoadedPrompt]) -> list[int]:
    """Which of the prompts are resident."""
    return [n for n, prompt in enumerate(prompts) if not residence.missing([usable_of(prompt)])]


def residence_of(harness: EngineHarness, slots: int) -> PromptCache:
    residence = PromptCache(harness.backbone, harness.slots_for(slots))
    assert residence.capacity == slots
    return residence


def is_cleared(residence: PromptCache, resident: CachedPrompt) -> bool:
    _, pool = residence.seat([])
    slot = resident.seat.slot
    return not any(numbers.any() for numbers in (pool.tokens[slot], pool.keys[:, slot], pool.values[:, slot]))


def numbers_of(residence: PromptCache, prompt: LoadedPrompt) -> torch.Tensor:
    """The keys and values of a prompt that is here."""
    seating, pool = residence.seat([([prompt.digest], {})])
    residence.release(seating)
    slot = seating.residents[prompt.digest].seat.slot
    return torch.stack([pool.keys[:, slot], pool.values[:, slot]], dim=1)


def ready_numbers(prompt: LoadedPrompt) -> torch.Tensor:
    assert prompt.ready.keys_values is not None
    return prompt.ready.keys_values
