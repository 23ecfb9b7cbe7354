"""A prompt trained the straightforward way: one sequence of all tokens, gradients through all of them.

With full attention it is the paper's paragon, and answers as a `JointSet` of its own. With structured attention
it learns what `train_prompt` learns, and shows what that saves. A baseline may use the whole machine, so its
bytes depend on torch's number of threads besides the samples, the recipe and the backbone.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import torch
from torch import Tensor

from alacarte.prompting.attention.masked_reference import joint_forward
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.prototypes import kmeans
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.datasets.dataset import LabelledPicture
from trainer.baselines.batches import PixelBatch, load_batches
from trainer.baselines.joint_prompts import Attention, attention_mask, joint_logits
from trainer.errors import RecipeInvalid
from trainer.optimize import ReportProgress, optimize
from trainer.prompt_params import TrainablePrompt
from trainer.recipe import Recipe
from trainer.train import build_metadata, shard_labels, training_batches
from trainer.views import served_batches


def train_joint(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    attention: Attention,
    report: ReportProgress = lambda _: None,
) -> TrainedPrompt:
    """The prompt that these samples teach this backbone when all tokens are one sequence."""
    labels = shard_labels(samples)
    if recipe.variant == "head-only":
        raise RecipeInvalid("a head-only prompt takes no part in attention: train it with train_prompt")
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    fit_joint(prompt, backbone, samples, labels, recipe, attention, report)
    metadata = build_metadata(backbone, labels, len(samples), recipe)
    # Nothing else tells that a prompt of full attention means little with structured attention.
    metadata = replace(metadata, settings={**metadata.settings, "attention": attention})
    return TrainedPrompt(prompt.tensors(recipe, _prototypes_of(backbone, samples, recipe)), metadata)


def fit_joint(
    prompt: TrainablePrompt,
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    labels: Sequence[str],
    recipe: Recipe,
    attention: Attention,
    report: ReportProgress,
) -> None:
    """Let the prompt learn the samples' labels from their pixels, by autograd through all tokens."""
    mask = attention_mask(backbone, [prompt], attention)

    def logits(pictures: PixelBatch) -> Tensor:
        return joint_logits(backbone, pictures.images, [prompt], mask)[0]

    with closing(load_batches(training_batches(samples, recipe), backbone.preprocessing)) as batches:
        optimize(prompt.parameters(), batches, logits, labels, len(samples), recipe, report)


def _prototypes_of(backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe) -> Tensor:
    """The prototypes (K, D) of the bare backbone's class-token embeddings, as `train_prompt` makes them."""
    nobody = torch.empty(0, backbone.width, device=backbone.device, dtype=backbone.dtype)
    embeddings: list[Tensor] = []
    for pictures in load_batches(served_batches(samples, recipe.batch), backbone.preprocessing):
        with torch.inference_mode():
            images = pictures.images.to(backbone.device, backbone.dtype)
            embeddings.append(joint_forward(backbone, images, nobody, [], None).embedding.float())
    return kmeans(torch.cat(embeddings), recipe.prototypes, recipe.seed)
