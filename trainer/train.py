"""From the samples of one shard to its prompt, deterministic to the byte.

A prompt's bytes depend on its own samples, their labels, the recipe and the backbone alone: not on the order in
which samples are stored, nor on what else is trained beside it, nor on what the state cache could keep.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import torch
from torch import Tensor

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.prototypes import kmeans
from alacarte.prompting.prompt.tensors import PromptMetadata, TrainedPrompt
from registry.datasets.dataset import LabelledPicture
from trainer.errors import ShardRefused, TrainingError
from trainer.optimize import ReportProgress, optimize
from trainer.prompt_params import TrainablePrompt
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.threads import one_thread
from trainer.views import View, served_batches

Check = Callable[[], None]  # called before every batch; what it raises stops the training


def shard_labels(samples: Sequence[LabelledPicture]) -> tuple[str, ...]:
    """The sorted labels of a shard that can be trained; one is enough, and then all that its prompt ever says."""
    labels = tuple(sorted({sample.label for sample in samples}))
    if not samples:
        raise ShardRefused("the shard has no pictures: use fewer shards or more pictures")
    if len({sample.digest for sample in samples}) < len(samples):
        raise ShardRefused("the shard has a picture twice: keep one of them")
    return labels


def train_prompt(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    cache: StateCache,
    report: ReportProgress = lambda _: None,
    check: Check = lambda: None,
) -> TrainedPrompt:
    """The prompt that these samples teach this backbone by this recipe."""
    if cache.backbone is not backbone:
        raise TrainingError("the state cache belongs to another backbone: make one for this")
    labels = shard_labels(samples)
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    fit(prompt, samples, labels, recipe, cache, report, check)
    prototypes = compute_prototypes(samples, recipe, cache, check)
    return TrainedPrompt(prompt.tensors(recipe, prototypes), build_metadata(backbone, labels, len(samples), recipe))


def train_shard(
    backbone: Backbone,
    samples: Sequence[LabelledPicture],
    recipe: Recipe,
    cache_bytes: int,
    report: ReportProgress = lambda _: None,
    scratch: Path | None = None,
    check: Check = lambda: None,
) -> TrainedPrompt:
    """As `train_prompt`, with a cache of its own for as long as it trains, if any view is looked at twice."""
    is_seen_again = recipe.augment == "none" or recipe.views_in_all < recipe.epochs
    views = len(samples) * recipe.views_in_all if is_seen_again else 0
    with StateCache(backbone, cache_bytes, views, scratch) as cache:
        return train_prompt(backbone, samples, recipe, cache, report, check)


def build_metadata(backbone: Backbone, labels: tuple[str, ...], samples: int, recipe: Recipe) -> PromptMetadata:
    """What is true of a prompt that was trained so."""
    return PromptMetadata(
        backbone=backbone.identity,
        architecture=backbone.architecture,
        size=backbone.preprocessing.size,
        labels=labels,
        samples=samples,
        seed=recipe.seed,
        settings={
            **recipe.settings(),
            "precision": str(backbone.dtype).removeprefix("torch."),  # other kernels round otherwise
            "device": backbone.device.type,
        },
    )


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
    """Let the prompt learn the samples' labels from their states."""
    with closing(cache.walk(_checked(training_batches(samples, recipe), check))) as batches:
        optimize(prompt.parameters(), batches, prompt.logits, labels, len(samples), recipe, report)


def training_batches(samples: Sequence[LabelledPicture], recipe: Recipe) -> Iterator[list[View]]:
    """The batches of a whole training; an epoch's order is a keyed hash, whatever order samples come in."""
    for epoch in range(recipe.epochs):

        def place(sample: LabelledPicture, epoch: int = epoch) -> bytes:
            return hashlib.sha256(f"{recipe.seed} {epoch} {sample.digest}".encode()).digest()

        views = [View(sample, recipe.view_at(epoch), recipe.seed) for sample in sorted(samples, key=place)]
        for start in range(0, len(views), recipe.batch):
            yield views[start : start + recipe.batch]


def compute_prototypes(
    samples: Sequence[LabelledPicture], recipe: Recipe, cache: StateCache, check: Check = lambda: None
) -> Tensor:
    """The prototypes (K, D) of the samples' class-token embeddings, of the pictures as they are served."""
    batches = _checked(served_batches(samples, recipe.batch), check)
    embedding = torch.cat([seen.embedding for seen in cache.walk(batches)])
    return kmeans(embedding, recipe.prototypes, recipe.seed)


def count_steps(samples: int, recipe: Recipe) -> int:
    """How often a whole training of so many samples checks."""
    return (recipe.epochs + 1) * math.ceil(samples / recipe.batch)  # the last walk is the prototypes'


def _checked(batches: Iterable[list[View]], check: Check) -> Iterator[list[View]]:
    for batch in batches:
        check()
        yield batch
