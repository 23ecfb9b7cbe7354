"""A prompt trained the straightforward way: one sequence of all tokens, gradients through all of them.

With full attention it is the paper's paragon, and answers as a `JointSet` of its own. With structured attention
it learns what `train_prompt` learns, and shows what that saves.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from alacarte.prompting.backbone import Backbone
from alacarte.prompting.joint import joint_forward
from alacarte.prompting.prototypes import kmeans
from alacarte.prompting.tensors import Prompt, PromptFacts
from registry.reading.sample import Sample
from trainer.comparisons.joint_set import Attention, joint_logits, mask_of
from trainer.comparisons.minimise import minimise
from trainer.comparisons.pictures import load_batches
from trainer.errors import RecipeInvalid
from trainer.recipe import Recipe
from trainer.train import Report, labels_of
from trainer.trainable import TrainablePrompt
from trainer.views import View


def train_joint(
    backbone: Backbone,
    samples: Sequence[Sample],
    recipe: Recipe,
    attention: Attention,
    report: Report = lambda _: None,
) -> Prompt:
    """The prompt that these samples teach this backbone when all tokens are one sequence."""
    labels = labels_of(samples)
    if recipe.variant == "head-only":
        raise RecipeInvalid("a head-only prompt takes no part in attention: train it with train_prompt")
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    mask = mask_of(backbone, [prompt], attention)

    def logits(images: Tensor) -> Tensor:
        return joint_logits(backbone, images, [prompt], mask)[0]

    minimise(prompt.parameters(), logits, samples, labels, backbone.preprocessing, recipe, report)
    facts = PromptFacts(
        backbone=backbone.identity,
        architecture=backbone.architecture,
        size=backbone.preprocessing.size,
        labels=labels,
        samples=len(samples),
        seed=recipe.seed,
        # Nothing else tells that a prompt of full attention means little with structured attention.
        settings={**recipe.facts(), "attention": attention},
    )
    return Prompt(prompt.tensors(recipe, _prototypes_of(backbone, samples, recipe)), facts)


def _prototypes_of(backbone: Backbone, samples: Sequence[Sample], recipe: Recipe) -> Tensor:
    """The prototypes (K, D) of the bare backbone's class-token embeddings, as `train_prompt` makes them."""
    views = [View(sample) for sample in samples]
    batches = (views[start : start + recipe.batch] for start in range(0, len(views), recipe.batch))
    nobody = torch.empty(0, backbone.width, device=backbone.device, dtype=backbone.dtype)
    embeddings: list[Tensor] = []
    for pictures in load_batches(batches, backbone.preprocessing):
        with torch.inference_mode():
            images = pictures.images.to(backbone.device, backbone.dtype)
            embeddings.append(joint_forward(backbone, images, nobody, [], None).embedding.float())
    return kmeans(torch.cat(embeddings), recipe.prototypes, recipe.seed)
