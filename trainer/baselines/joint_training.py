"""Train a prompt the straightforward way: all tokens in one sequence, gradients through all of them.

With full attention this is the paper's paragon, evaluated as a `JointSet` of one. With structured attention it learns
the same as `train_prompt`, and shows what that saves. A baseline may use all cores, so its bytes also depend on torch's
number of threads.
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
from trainer.baselines.prompt_sets import Attention, attention_mask, joint_logits
from trainer.errors import RecipeInvalid
from trainer.optimize import ReportProgress, optimize
from trainer.prompt_params import TrainablePrompt
from trainer.recipe import Recipe
from trainer.train import build_metadata, shard_labels, training_batches
from trainer.views import PixelBatch, load_batches, served_batches


def train_joint(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    attention: Attention,
    report: ReportProgress = lambda _: None,
) -> TrainedPrompt:
    """Train a prompt on these samples with all tokens in one sequence."""
    labels = shard_labels(samples)
    if recipe.variant == "head-only":
        raise RecipeInvalid("a head-only prompt takes no part in attention: train it with train_prompt")
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    fit_joint(prompt, backbone, samples, labels, recipe, attention, report)
    metadata = build_metadata(backbone, labels, len(samples), recipe)
    # A prompt trained with full attention is of little use with structured attention: mark it.
    metadata = replace(metadata, settings={**metadata.settings, "attention": attention})
    return TrainedPrompt(prompt.tensors(recipe, _compute_prototypes(backbone, samples, recipe)), metadata)


def fit_joint(
    prompt: TrainablePrompt,
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    labels: Sequence[str],
    recipe: Recipe,
    attention: Attention,
    report: ReportProgress,
) -> None:
    """Fit the prompt to the samples' labels from their pixels, by autograd through all tokens."""
    mask = attention_mask(backbone, [prompt], attention)

    def logits(batch: PixelBatch) -> Tensor:
        return joint_logits(backbone, batch.images, [prompt], mask)[0]

    with closing(load_batches(training_batches(samples, recipe), backbone.preprocessing)) as batches:
        optimize(prompt.parameters(), batches, logits, labels, len(samples), recipe, report)


def _compute_prototypes(backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe) -> Tensor:
    """Return the prototypes (K, D) of the bare backbone's class-token embeddings, as `train_prompt` computes them."""
    no_tokens = torch.empty(0, backbone.width, device=backbone.device, dtype=backbone.dtype)
    embeddings: list[Tensor] = []
    for batch in load_batches(served_batches(samples, recipe.batch), backbone.preprocessing):
        with torch.inference_mode():
            images = batch.images.to(backbone.device, backbone.dtype)
            embeddings.append(joint_forward(backbone, images, no_tokens, [], None).embedding.float())
    return kmeans(torch.cat(embeddings), recipe.prototypes, recipe.seed)
