"""Parameter averaging: one prompt whose tensors are the mean of several, one of the paper's naive baselines."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.prompt.metadata import PromptMetadata, SettingValue
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt

# C labels in the union, D width


def average_prompts(prompts: Sequence[TrainedPrompt]) -> TrainedPrompt:
    """Return the mean of the prompts; a label's head row is the mean over the prompts that have the label.

    A single prompt is returned unchanged. Prototypes are concatenated. Further tensors are dropped, because their
    meaning is not known here.
    """
    if not prompts:
        raise CompositionInvalid("there are no prompts to average: name at least one")
    first = prompts[0]
    if len(prompts) == 1:
        return first
    if len({_signature(prompt) for prompt in prompts}) > 1:
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
            seed=min(prompt.metadata.seed for prompt in prompts),  # any of them: an average cannot be trained again
            settings={**_shared_settings(prompts), "averaged": len(prompts)},
        ),
    )


def _signature(prompt: TrainedPrompt) -> tuple[object, ...]:
    """Return what must be equal for prompts to be averaged."""
    memory = prompt.tensors.memory
    return prompt.metadata.backbone, prompt.tensors.variant, None if memory is None else memory.shape


def _mean(members: Sequence[Tensor | None]) -> Tensor | None:
    present = [member for member in members if member is not None]
    return torch.stack(present).mean(0) if present else None


def _mean_by_label(prompts: Sequence[TrainedPrompt], heads: Sequence[Tensor], labels: Sequence[str]) -> Tensor:
    """Return rows (C, ...): for each label the mean of the rows of the heads that have it."""
    rows: dict[str, list[Tensor]] = {label: [] for label in labels}
    for prompt, head in zip(prompts, heads, strict=True):
        for label, row in zip(prompt.metadata.labels, head, strict=True):
            rows[label].append(row)
    return torch.stack([torch.stack(rows[label]).mean(0) for label in labels])


def _shared_settings(prompts: Sequence[TrainedPrompt]) -> dict[str, SettingValue]:
    """Return the settings that are equal in all prompts."""
    first, *others = (prompt.metadata.settings for prompt in prompts)
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }
