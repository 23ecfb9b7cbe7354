"""A training that an experiment wants, named by everything that its outcome depends on."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from alacarte.prompting.backbone.vit import Backbone
from registry.datasets.sample import Sample
from trainer.recipe import Recipe

# A prompt with structured attention; a prompt in one sequence with all tokens; a copy of the backbone that learns
# as a whole; one of which only the biases learn.
Way = Literal["structured", "full", "fine-tuning", "bias"]

FORM = 1  # goes up when a training comes to mean something else, so that nothing older is taken for it

# What a picture of an epoch costs, about, over one with structured attention and kept states. Only a first guess
# of the time left: what has been done corrects it.
EFFORT: dict[Way, float] = {"structured": 1.0, "full": 15.0, "bias": 18.0, "fine-tuning": 22.0}
EFFORT_OF_A_HEAD = 0.05


@dataclass(frozen=True)
class Training:
    """What learns, from which samples, by which recipe."""

    way: Way
    samples: tuple[Sample, ...]
    recipe: Recipe

    @cached_property
    def _learnt(self) -> str:
        pictures = sorted((sample.digest, sample.label) for sample in self.samples)
        return hashlib.sha256(json.dumps(pictures).encode()).hexdigest()

    def key(self, backbone: Backbone) -> str:
        """The name under which the outcome is kept."""
        facts = {
            "form": FORM,
            "way": self.way,
            "samples": self._learnt,
            "recipe": self.recipe.facts(),
            "backbone": backbone.identity,
            "precision": str(backbone.dtype),
            "device": backbone.device.type,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def has_prompt(self) -> bool:
        """Whether a prompt comes of it; of the others only the answers are kept."""
        return self.way in ("structured", "full")

    @property
    def effort(self) -> float:
        """How long it takes, about, in units of a picture and an epoch with structured attention."""
        each = EFFORT_OF_A_HEAD if self.recipe.variant == "head-only" else EFFORT[self.way]
        return len(self.samples) * self.recipe.epochs * each


def key_of_pictures(samples: tuple[Sample, ...], backbone: Backbone) -> str:
    """The name of these pictures in this order, as this backbone sees them."""
    facts = [FORM, backbone.identity, str(backbone.dtype), backbone.device.type, [each.digest for each in samples]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
