"""The specification of one training, and the cache keys made from everything that its outcome depends on."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from alacarte.prompting.backbone.vit import Backbone
from registry.datasets.dataset import LabelledPicture
from trainer.recipe import Recipe

# structured: a prompt with structured attention. full: a prompt in one sequence with all tokens.
# fine-tuning: a copy of the backbone, trained whole. bias: a copy of the backbone of which only biases are trained.
TrainingMethod = Literal["structured", "full", "fine-tuning", "bias"]

KEY_VERSION = 1  # increment when a spec changes its meaning, so that older cached outcomes are not used

# Approximate cost of a picture in an epoch, relative to structured attention with cached states. Only the first
# estimate of the remaining time; measured times replace it.
RELATIVE_COST: dict[TrainingMethod, float] = {"structured": 1.0, "full": 15.0, "bias": 18.0, "fine-tuning": 22.0}
RELATIVE_HEAD_COST = 0.05


@dataclass(frozen=True)
class TrainingSpec:
    """What is trained, on which samples, by which recipe."""

    method: TrainingMethod
    samples: tuple[LabelledPicture, ...]
    recipe: Recipe

    @cached_property
    def _samples_digest(self) -> str:
        pictures = sorted((sample.digest, sample.label) for sample in self.samples)
        return hashlib.sha256(json.dumps(pictures).encode()).hexdigest()

    def key(self, backbone: Backbone) -> str:
        """The cache key of the outcome."""
        fields = {
            "version": KEY_VERSION,
            "method": self.method,
            "samples": self._samples_digest,
            "recipe": self.recipe.settings(),
            "backbone": backbone.identity,
            "precision": str(backbone.dtype),
            "device": backbone.device.type,
        }
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def has_prompt(self) -> bool:
        """Whether the outcome is a prompt; of other methods only the logits are cached."""
        return self.method in ("structured", "full")

    @property
    def cost(self) -> float:
        """The approximate cost, in units of a picture and an epoch with structured attention."""
        relative = RELATIVE_HEAD_COST if self.recipe.variant == "head-only" else RELATIVE_COST[self.method]
        return len(self.samples) * self.recipe.epochs * relative

    @property
    def cost_class(self) -> str:
        """Trainings of one class cost about the same for a picture in an epoch."""
        return "head" if self.recipe.variant == "head-only" else self.method


def samples_key(samples: tuple[LabelledPicture, ...], backbone: Backbone) -> str:
    """The cache key of these pictures, in this order, under this backbone."""
    fields = [
        KEY_VERSION,
        backbone.identity,
        str(backbone.dtype),
        backbone.device.type,
        [sample.digest for sample in samples],
    ]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
