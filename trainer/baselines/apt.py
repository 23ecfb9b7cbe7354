"""The method itself as one of those compared: prompts composed with structured attention, as they are served."""

from collections.abc import Sequence

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.tensors import TrainedPrompt
from trainer.baselines.member_logits import EnsembleLogits


class StructuredSet:
    """Prompts that do not disturb each other, of any variant; a set of one is a prompt by itself."""

    def __init__(self, backbone: Backbone, prompts: Sequence[TrainedPrompt]) -> None:
        self._names = tuple(str(place) for place in range(len(prompts)))
        self._predictor = Predictor(backbone, dict(zip(self._names, prompts, strict=True)))
        self._labels = tuple(prompt.metadata.labels for prompt in prompts)
        self._prototypes = tuple(prompt.tensors.prototypes for prompt in prompts)

    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """What each prompt says of each of images (B, 3, S, S)."""
        rows, embedding = self._predictor.logits(images, [self._names] * len(images))
        return EnsembleLogits(
            labels=self._labels,
            logits=tuple(torch.stack([row[name] for row in rows]).cpu() for name in self._names),
            embedding=embedding.cpu(),
            prototypes=self._prototypes,
        )
