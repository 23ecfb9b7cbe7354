"""Fine-tuning: train a copy of the backbone, or its biases only, with a head on its class token.

A baseline may use all cores, so its bytes depend on torch's number of threads.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from registry.datasets.dataset import LabelledPicture
from trainer.baselines.evaluate import EnsembleLogits
from trainer.optimize import ReportProgress, optimize
from trainer.recipe import Recipe
from trainer.train import shard_labels, training_batches
from trainer.views import PixelBatch, load_batches

# B images, N backbone tokens, D width, C labels, S side

FINE_TUNE_RATE = 1e-5  # base rates for a batch of 256, the paper's
BIAS_RATE = 5e-3


class TunedModel:
    """A copy of a backbone whose weights can be trained, and a head that starts at zero.

    Always in single precision: steps as small as the paper's would be lost in half precision.
    """

    def __init__(self, backbone: Backbone, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.model = copy.deepcopy(backbone.model).float().requires_grad_(False).eval()
        self.model.reset_classifier(0)  # the classifier of the pretraining is never used
        self.head_weight = torch.zeros(len(labels), backbone.width, device=backbone.device)
        self.head_bias = torch.zeros(len(labels), device=backbone.device)

    def logits(self, images: Tensor) -> Tensor:
        """Return the logits (B, C) of images (B, 3, S, S); differentiable."""
        tokens = self.model.forward_features(images.to(self.head_bias.device))  # (B, N, D)
        return F.linear(self.model.fc_norm(tokens[:, 0]), self.head_weight, self.head_bias)

    @torch.inference_mode()
    def member_logits(self, images: Tensor) -> EnsembleLogits:
        """Return the logits for images (B, 3, S, S), as a single member."""
        return EnsembleLogits((self.labels,), (self.logits(images).cpu(),))


def fine_tune(
    backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe, report: ReportProgress = lambda _: None
) -> TunedModel:
    """Train a copy of the backbone, all weights, on these samples, at the paper's rate unless the recipe has one."""
    model = TunedModel(backbone, shard_labels(samples))
    return _tune(model, list(model.model.parameters()), backbone, samples, recipe, FINE_TUNE_RATE, report)


def tune_biases(
    backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe, report: ReportProgress = lambda _: None
) -> TunedModel:
    """Train a copy of the backbone, biases only, on these samples, at the paper's rate unless the recipe has one."""
    model = TunedModel(backbone, shard_labels(samples))
    biases = [parameter for name, parameter in model.model.named_parameters() if name.rpartition(".")[2] == "bias"]
    return _tune(model, biases, backbone, samples, recipe, BIAS_RATE, report)


def _tune(
    model: TunedModel,
    weights: Sequence[Tensor],
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    base_rate: float,
    report: ReportProgress,
) -> TunedModel:
    """Train these weights of the model and its head, then freeze them again."""
    if recipe.base_rate is None:
        recipe = replace(recipe, base_rate=base_rate)
    parameters = [*weights, model.head_weight, model.head_bias]
    for parameter in parameters:
        parameter.requires_grad_()
    batches = load_batches(training_batches(samples, recipe), backbone.preprocessing)

    def logits(batch: PixelBatch) -> Tensor:
        return model.logits(batch.images)

    optimize(parameters, batches, logits, model.labels, len(samples), recipe, report)
    for parameter in parameters:
        parameter.requires_grad_(False).grad = None
    return model
