"""Sets of prompts as classifiers: with structured attention (APT), and in one sequence with the backbone's tokens.

The joint set is the paper's naive concatenation, or with one prompt that was trained so, the paper's paragon.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.predict import Predictor, check_backbone
from alacarte.prompting.prompt.tensors import TrainedPrompt
from trainer.baselines.evaluate import EnsembleLogits

# B images, N backbone tokens, P prompts, M memory tokens a block, L blocks, D width, C_p labels of prompt p

Attention = Literal["full", "structured"]  # every token attends every token; or the paper's attention mask


class StructuredSet:
    """Prompts of any variant with structured attention, as they are served (APT); a set of one is a prompt alone."""

    def __init__(self, backbone: Backbone, prompts: Sequence[TrainedPrompt]) -> None:
        self._names = tuple(str(index) for index in range(len(prompts)))
        self._predictor = Predictor(backbone, dict(zip(self._names, prompts, strict=True)))
        self._labels = tuple(prompt.metadata.labels for prompt in prompts)
        self._prototypes = tuple(prompt.tensors.prototypes for prompt in prompts)

    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """Return each prompt's logits for images (B, 3, S, S)."""
        rows, embedding = self._predictor.logits(images, [self._names] * len(images))
        return EnsembleLogits(
            labels=self._labels,
            logits=tuple(torch.stack([row[name] for row in rows]).cpu() for name in self._names),
            embedding=embedding.cpu(),
            prototypes=self._prototypes,
        )


class JointSet:
    """Prompts that attend each other and change the backbone's states, each with its head on its own token."""

    def __init__(self, backbone: Backbone, prompts: Sequence[TrainedPrompt], attention: Attention = "full") -> None:
        if not prompts:
            raise CompositionInvalid("there are no prompts to concatenate: name at least one")
        for index, prompt in enumerate(prompts):
            check_backbone(backbone, str(index), prompt)
            if prompt.tensors.token is None:
                raise CompositionInvalid(
                    "a head-only prompt takes no part in attention: compose it as a structured set"
                )
        self._backbone = backbone
        self._labels = tuple(prompt.metadata.labels for prompt in prompts)
        self._prompts = [prompt.tensors for prompt in prompts]
        self._mask = attention_mask(backbone, self._prompts, attention)

    @torch.inference_mode()
    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """Return each prompt's logits for images (B, 3, S, S)."""
        logits = joint_logits(self._backbone, images, self._prompts, self._mask)
        return EnsembleLogits(self._labels, tuple(each.cpu() for each in logits))


class JointPromptTensors(Protocol):
    """The tensors of a prompt that joint attention reads, trained or in training."""

    @property
    def token(self) -> Tensor | None: ...  # (D)
    @property
    def memory(self) -> Tensor | None: ...  # (L, M, D) or (1, M, D)
    @property
    def head_weight(self) -> Tensor: ...  # (C, D)
    @property
    def head_bias(self) -> Tensor: ...  # (C)


def attention_mask(backbone: Backbone, prompts: Sequence[JointPromptTensors], attention: Attention) -> Tensor | None:
    """Return which tokens may attend which, among the backbone's tokens, the prompts and their memory."""
    if attention == "full":
        return None
    memories = [0 if prompt.memory is None else prompt.memory.shape[1] for prompt in prompts]
    return structured_mask(backbone.tokens, memories, backbone.device)


def joint_logits(
    backbone: Backbone, images: Tensor, prompts: Sequence[JointPromptTensors], mask: Tensor | None
) -> list[Tensor]:
    """Return each prompt's logits (B, C_p) for images (B, 3, S, S), all from one sequence; differentiable."""
    device, dtype = backbone.device, backbone.dtype
    tokens = [prompt.token for prompt in prompts if prompt.token is not None]
    assert len(tokens) == len(prompts), "a head-only prompt takes no part in attention"
    memories = [
        prompt.memory.to(device, dtype).expand(backbone.depth, -1, -1)  # deep-shared: (1, M, D)
        for prompt in prompts
        if prompt.memory is not None
    ]
    result = joint_forward(backbone, images.to(device, dtype), torch.stack(tokens).to(device, dtype), memories, mask)
    return [
        F.linear(rows.float(), prompt.head_weight.to(device), prompt.head_bias.to(device))
        for rows, prompt in zip(result.tokens.unbind(1), prompts, strict=True)  # (B, D)
    ]
