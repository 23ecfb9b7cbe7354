"""Prompts in one sequence with the backbone's tokens: the naive concatenation, and what the paragon answers by."""

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.predict import check_backbone
from alacarte.prompting.prompt.tensors import TrainedPrompt
from trainer.baselines.member_logits import EnsembleLogits

# B images, N backbone tokens, P prompts, M memory tokens a block, L blocks, D width, C_p labels of prompt p

Attention = Literal["full", "structured"]  # everyone attends everything; as the paper's masking table says


class JointPromptTensors(Protocol):
    """The numbers of a prompt that joint attention needs, learnt or still learning."""

    @property
    def token(self) -> Tensor | None: ...  # (D)
    @property
    def memory(self) -> Tensor | None: ...  # (L, M, D) or (1, M, D)
    @property
    def head_weight(self) -> Tensor: ...  # (C, D)
    @property
    def head_bias(self) -> Tensor: ...  # (C)


class JointSet:
    """Prompts that see each other and change the backbone's states, each with its head on its own token.

    Prompts that were trained apart: the naive concatenation. One that was trained so: the paper's paragon.
    """

    def __init__(self, backbone: Backbone, prompts: Sequence[TrainedPrompt], attention: Attention = "full") -> None:
        if not prompts:
            raise CompositionInvalid("there are no prompts to concatenate: name at least one")
        for place, prompt in enumerate(prompts):
            check_backbone(backbone, str(place), prompt)
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
        """What each prompt says of each of images (B, 3, S, S)."""
        found = joint_logits(self._backbone, images, self._prompts, self._mask)
        return EnsembleLogits(self._labels, tuple(logits.cpu() for logits in found))


def attention_mask(backbone: Backbone, prompts: Sequence[JointPromptTensors], attention: Attention) -> Tensor | None:
    """Who may attend whom, among the backbone's tokens, the prompts and their memories."""
    if attention == "full":
        return None
    memories = [0 if prompt.memory is None else prompt.memory.shape[1] for prompt in prompts]
    return structured_mask(backbone.tokens, memories, backbone.device)


def joint_logits(
    backbone: Backbone, images: Tensor, prompts: Sequence[JointPromptTensors], mask: Tensor | None
) -> list[Tensor]:
    """Each prompt's logits (B, C_p) of images (B, 3, S, S), all from one sequence; differentiable."""
    device, dtype = backbone.device, backbone.dtype
    tokens = [prompt.token for prompt in prompts if prompt.token is not None]
    assert len(tokens) == len(prompts), "a head-only prompt takes no part in attention"
    memories = [
        prompt.memory.to(device, dtype).expand(backbone.depth, -1, -1)  # deep-shared: (1, M, D)
        for prompt in prompts
        if prompt.memory is not None
    ]
    outcome = joint_forward(backbone, images.to(device, dtype), torch.stack(tokens).to(device, dtype), memories, mask)
    return [
        F.linear(rows.float(), prompt.head_weight.to(device), prompt.head_bias.to(device))
        for rows, prompt in zip(outcome.tokens.unbind(1), prompts, strict=True)  # (B, D)
    ]
