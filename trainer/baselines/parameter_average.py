"""Averaging: several prompts and their heads as parameters made into one prompt, the paper's other naive way."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.prompt.tensors import PromptMetadata, PromptTensors, SettingValue, TrainedPrompt

# C labels in the union, D width


def average_prompts(prompts: Sequence[TrainedPrompt]) -> TrainedPrompt:
    """The prompt halfway between the prompts; a label is averaged over those that know it. One stays itself.

    Prototypes are kept side by side; further tensors, whose meaning is not known here, are left out.
    """
    if not prompts:
        raise CompositionInvalid("there are no prompts to average: name at least one")
    first = prompts[0]
    if len(prompts) == 1:
        return first
    if len({_kind(prompt) for prompt in prompts}) > 1:
        raise CompositionInvalid(
            "prompts of different backbones, variants or memory sizes have no average: train them alike"
        )
    labels = tuple(sorted({label for prompt in prompts for label in prompt.metadata.labels}))
    tensors = [prompt.tensors for prompt in prompts]
    return TrainedPrompt(
        PromptTensors(
            variant=first.tensors.variant,
            token=_mean([each.token for each in tensors]),
            memory=_mean([each.memory for each in tensors]),
            head_weight=_mean_by_label(prompts, [each.head_weight for each in tensors], labels),
            head_bias=_mean_by_label(prompts, [each.head_bias for each in tensors], labels),
            prototypes=torch.cat([each.prototypes for each in tensors]),
        ),
        PromptMetadata(
            backbone=first.metadata.backbone,
            architecture=first.metadata.architecture,
            size=first.metadata.size,
            labels=labels,
            samples=sum(prompt.metadata.samples for prompt in prompts),
            seed=min(prompt.metadata.seed for prompt in prompts),  # no seed gives an average again: any one
            settings={**_shared_settings(prompts), "averaged": len(prompts)},
        ),
    )


def _kind(prompt: TrainedPrompt) -> tuple[object, ...]:
    """What must be equal in prompts that are averaged."""
    memory = prompt.tensors.memory
    return prompt.metadata.backbone, prompt.tensors.variant, None if memory is None else memory.shape


def _mean(members: Sequence[Tensor | None]) -> Tensor | None:
    present = [member for member in members if member is not None]
    return torch.stack(present).mean(0) if present else None


def _mean_by_label(prompts: Sequence[TrainedPrompt], heads: Sequence[Tensor], labels: Sequence[str]) -> Tensor:
    """Rows (C, ...) of heads over their own labels, each the mean of the rows that speak for its label."""
    rows: dict[str, list[Tensor]] = {label: [] for label in labels}
    for prompt, head in zip(prompts, heads, strict=True):
        for label, row in zip(prompt.metadata.labels, head, strict=True):
            rows[label].append(row)
    return torch.stack([torch.stack(rows[label]).mean(0) for label in labels])


def _shared_settings(prompts: Sequence[TrainedPrompt]) -> dict[str, SettingValue]:
    """The settings that all prompts agree on."""
    first, *others = (prompt.metadata.settings for prompt in prompts)
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }
