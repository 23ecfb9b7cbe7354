"""The parameters of a prompt while they change: where they start, and the logits they give."""

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.train_forward import KVBuffer, prompt_forward
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import PromptTensors
from trainer.recipe import Recipe
from trainer.state_cache import CachedStates

# B pictures of a batch, L blocks, M memory tokens a block, D width, C labels

MEMORY_SPREAD = 0.02  # standard deviation of new memory tokens, as of new tokens in vision transformers


class TrainablePrompt:
    """The parameters of a prompt while they change, on the backbone's device, in single precision."""

    def __init__(self, backbone: Backbone, recipe: Recipe, labels: int) -> None:
        """The token starts as the class token, memory small and random, the head at zero."""
        generator = torch.Generator().manual_seed(recipe.seed)
        self._backbone = backbone
        self._room: KVBuffer | None = None
        self.head_weight = self._parameter(torch.zeros(labels, backbone.width))
        self.head_bias = self._parameter(torch.zeros(labels))
        self.token: Tensor | None = None
        self.memory: Tensor | None = None
        if recipe.variant != "head-only":
            self.token = self._parameter(backbone.class_token.clone())
        if recipe.variant in ("deep", "deep-shared"):
            layers = backbone.depth if recipe.variant == "deep" else 1
            start = torch.randn(layers, recipe.memory, backbone.width, generator=generator)
            self.memory = self._parameter(start * MEMORY_SPREAD)

    def _parameter(self, start: Tensor) -> Tensor:
        return start.to(self._backbone.device).requires_grad_()

    def parameters(self) -> list[Tensor]:
        """What the optimiser moves."""
        every = (self.token, self.memory, self.head_weight, self.head_bias)
        return [parameter for parameter in every if parameter is not None]

    def logits(self, seen: CachedStates) -> Tensor:
        """Logits (B, C) of a batch."""
        backbone = self._backbone
        if self.token is None:
            rows = seen.embedding.to(backbone.device)
        else:
            memory = self.memory
            if memory is not None:
                memory = memory.expand(backbone.depth, -1, -1).to(backbone.dtype)
            states = [state.to(backbone.device) for state in seen.states]
            rows = prompt_forward(
                backbone, states, self.token.to(backbone.dtype), memory, self._room_for(len(seen.views))
            ).float()
        return F.linear(rows, self.head_weight, self.head_bias)

    def _room_for(self, pictures: int) -> KVBuffer:
        if self._room is None or self._room.pictures < pictures:
            memory = 0 if self.memory is None else self.memory.shape[1]
            self._room = KVBuffer(self._backbone, pictures, memory)
        return self._room

    def tensors(self, recipe: Recipe, prototypes: Tensor) -> PromptTensors:
        """The numbers as they are now."""

        def frozen(parameter: Tensor) -> Tensor:
            return parameter.detach().cpu().clone()

        return PromptTensors(
            variant=recipe.variant,
            token=None if self.token is None else frozen(self.token),
            memory=None if self.memory is None else frozen(self.memory),
            head_weight=frozen(self.head_weight),
            head_bias=frozen(self.head_bias),
            prototypes=prototypes,
        )
