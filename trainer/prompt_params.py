"""The parameters of a prompt during training: their initial values, and the logits they give."""

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.train_forward import KVBuffer, prompt_forward
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import PromptTensors
from trainer.recipe import Recipe
from trainer.state_cache import CachedStates

# B pictures of a batch, L blocks, M memory tokens a block, D width, C labels

MEMORY_STD = 0.02  # of new memory tokens, as usual for new tokens of vision transformers


class TrainablePrompt:
    """The parameters of a prompt during training, on the backbone's device, in single precision."""

    def __init__(self, backbone: Backbone, recipe: Recipe, labels: int) -> None:
        """Start with the class token as token, small random memory and a head of zeros."""
        generator = torch.Generator().manual_seed(recipe.seed)
        self._backbone = backbone
        self._buffer: KVBuffer | None = None
        self.head_weight = self._parameter(torch.zeros(labels, backbone.width))
        self.head_bias = self._parameter(torch.zeros(labels))
        self.token: Tensor | None = None
        self.memory: Tensor | None = None
        if recipe.variant != "head-only":
            self.token = self._parameter(backbone.class_token.clone())
        if recipe.variant in ("deep", "deep-shared"):
            layers = backbone.depth if recipe.variant == "deep" else 1
            start = torch.randn(layers, recipe.memory, backbone.width, generator=generator)
            self.memory = self._parameter(start * MEMORY_STD)

    def _parameter(self, start: Tensor) -> Tensor:
        return start.to(self._backbone.device).requires_grad_()

    def parameters(self) -> list[Tensor]:
        """Return the tensors that the optimizer changes."""
        every = (self.token, self.memory, self.head_weight, self.head_bias)
        return [parameter for parameter in every if parameter is not None]

    def logits(self, batch: CachedStates) -> Tensor:
        """Return the logits (B, C) of a batch."""
        backbone = self._backbone
        if self.token is None:
            rows = batch.embedding.to(backbone.device)  # (B, D)
        else:
            memory = self.memory
            if memory is not None:
                memory = memory.expand(backbone.depth, -1, -1).to(backbone.dtype)  # deep-shared: (1, M, D)
            states = [state.to(backbone.device) for state in batch.states]
            buffer = self._buffer_for(len(batch.views))
            rows = prompt_forward(backbone, states, self.token.to(backbone.dtype), memory, buffer).float()  # (B, D)
        return F.linear(rows, self.head_weight, self.head_bias)

    def _buffer_for(self, pictures: int) -> KVBuffer:
        if self._buffer is None or self._buffer.pictures < pictures:
            memory = 0 if self.memory is None else self.memory.shape[1]
            self._buffer = KVBuffer(self._backbone, pictures, memory)
        return self._buffer

    def tensors(self, recipe: Recipe, prototypes: Tensor) -> PromptTensors:
        """Return a copy of the current values."""

        def copy(parameter: Tensor) -> Tensor:
            return parameter.detach().cpu().clone()

        return PromptTensors(
            variant=recipe.variant,
            token=None if self.token is None else copy(self.token),
            memory=None if self.memory is None else copy(self.memory),
            head_weight=copy(self.head_weight),
            head_bias=copy(self.head_bias),
            prototypes=prototypes,
        )
