"""Train the prompt of one shard from its samples, deterministic to the byte.

A prompt's bytes depend only on its own samples, their labels, the recipe and the backbone: not on the order in which
samples are stored, nor on what else is trained at the same time, nor on the size of the state cache.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.prototypes import kmeans
from alacarte.prompting.prompt.tensors import TrainedPrompt
from alacarte.prompting.threads import one_thread
from registry.datasets.dataset import LabelledPicture
from trainer.errors import ShardRefused, TrainingError
from trainer.optimize import ReportProgress, optimize
from trainer.prompt_params import TrainablePrompt
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.views import View, served_batches

Check = Callable[[], None]  # called before every batch; an error that it raises stops the training


def train_shard(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    cache_bytes: int,
    report: ReportProgress = lambda _: None,
    scratch: Path | None = None,
    check: Check = lambda: None,
) -> TrainedPrompt:
    """Train as `train_prompt` does, with a state cache for this training alone, if any view is used twice."""
    is_view_reused = recipe.augment == "none" or recipe.view_count < recipe.epochs
    views = len(samples) * recipe.view_count if is_view_reused else 0
    with StateCache(backbone, cache_bytes, views, scratch) as cache:
        return train_prompt(backbone, samples, recipe, cache, report, check)


def train_prompt(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    cache: StateCache,
    report: ReportProgress = lambda _: None,
    check: Check = lambda: None,
) -> TrainedPrompt:
    """Train a prompt on these samples: token, memory and head by gradient descent, prototypes by K-means."""
    if cache.backbone is not backbone:
        raise TrainingError("the state cache belongs to another backbone: make one for this")
    labels = shard_labels(samples)
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    fit(prompt, samples, labels, recipe, cache, report, check)
    prototypes = compute_prototypes(samples, recipe, cache, check)
    return TrainedPrompt(prompt.tensors(recipe, prototypes), build_metadata(backbone, labels, len(samples), recipe))


def shard_labels(samples: Sequence[LabelledPicture]) -> tuple[str, ...]:
    """Return the sorted labels of a shard; a single label is enough. ShardRefused if the shard cannot be trained."""
    if not samples:
        raise ShardRefused("the shard has no pictures: use fewer shards or more pictures")
    if len({sample.digest for sample in samples}) < len(samples):
        raise ShardRefused("the shard has a picture twice: keep one of them")
    return tuple(sorted({sample.label for sample in samples}))


@one_thread()
def fit(
    prompt: TrainablePrompt,
    samples: Sequence[LabelledPicture],
    labels: Sequence[str],
    recipe: Recipe,
    cache: StateCache,
    report: ReportProgress,
    check: Check = lambda: None,
) -> None:
    """Fit the prompt to the samples' labels, from their cached states."""
    with closing(cache.iter_states(_check_before_each(training_batches(samples, recipe), check))) as batches:
        optimize(prompt.parameters(), batches, prompt.logits, labels, len(samples), recipe, report)


def training_batches(samples: Sequence[LabelledPicture], recipe: Recipe) -> Iterator[list[View]]:
    """Yield the batches of all epochs; the order of an epoch is a keyed hash, independent of the samples' order."""
    for epoch in range(recipe.epochs):

        def order(sample: LabelledPicture, epoch: int = epoch) -> bytes:
            return hashlib.sha256(f"{recipe.seed} {epoch} {sample.digest}".encode()).digest()

        views = [View(sample, recipe.view_at(epoch), recipe.seed) for sample in sorted(samples, key=order)]
        for start in range(0, len(views), recipe.batch):
            yield views[start : start + recipe.batch]


def compute_prototypes(
    samples: Sequence[LabelledPicture], recipe: Recipe, cache: StateCache, check: Check = lambda: None
) -> Tensor:
    """Return the prototypes (K, D) of the samples' class-token embeddings, of the pictures as they are served."""
    batches = _check_before_each(served_batches(samples, recipe.batch), check)
    embedding = torch.cat([states.embedding for states in cache.iter_states(batches)])  # (samples, D)
    return kmeans(embedding, recipe.prototypes, recipe.seed)


def build_metadata(backbone: Backbone, labels: tuple[str, ...], samples: int, recipe: Recipe) -> PromptMetadata:
    """Return the metadata of a prompt that was trained with this backbone and recipe."""
    return PromptMetadata(
        backbone=backbone.identity,
        architecture=backbone.architecture,
        size=backbone.preprocessing.size,
        labels=labels,
        samples=samples,
        seed=recipe.seed,
        settings={
            **recipe.settings(),
            "precision": str(backbone.dtype).removeprefix("torch."),  # other kernels round differently
            "device": backbone.device.type,
        },
    )


def count_steps(samples: int, recipe: Recipe) -> int:
    """Return how often a training of this many samples calls `check`."""
    return (recipe.epochs + 1) * math.ceil(samples / recipe.batch)  # once more for the prototypes


def _check_before_each(batches: Iterable[list[View]], check: Check) -> Iterator[list[View]]:
    for batch in batches:
        check()
        yield batch
