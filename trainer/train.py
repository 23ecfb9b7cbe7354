"""From the samples of one shard to its prompt, deterministic to the byte.

A prompt's bytes depend on its own samples, their labels, the recipe and the backbone alone: not on the order in
which samples are stored, nor on what else is trained beside it, nor on what the state cache could keep.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.backbone import Backbone
from alacarte.prompting.prototypes import kmeans
from alacarte.prompting.tensors import Prompt, PromptFacts
from registry.reading.sample import Sample
from trainer.cache import StateCache
from trainer.errors import LossNotFinite, ShardRefused
from trainer.recipe import Recipe
from trainer.threads import one_thread
from trainer.trainable import TrainablePrompt
from trainer.views import View


@dataclass(frozen=True)
class Progress:
    """How far a training is, once an epoch."""

    epoch: int  # that has ended, counted from 1
    epochs: int
    loss: float  # mean of the epoch
    rate: float  # of its last step


Report = Callable[[Progress], None]


def labels_of(samples: Sequence[Sample]) -> tuple[str, ...]:
    """The sorted labels of a shard, refused if there is nothing to tell apart."""
    labels = tuple(sorted({sample.label for sample in samples}))
    if not samples:
        raise ShardRefused("the shard has no pictures: use fewer shards or more pictures")
    if len(labels) < 2:
        raise ShardRefused(
            f"the shard has pictures of one class only, {labels[0]!r}: use fewer shards or add another class"
        )
    return labels


def train_prompt(
    backbone: Backbone,
    samples: Sequence[Sample],
    recipe: Recipe,
    cache: StateCache,
    report: Report = lambda _: None,
) -> Prompt:
    """The prompt that these samples teach this backbone by this recipe."""
    labels = labels_of(samples)
    samples = sorted(samples, key=lambda sample: sample.digest)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    with one_thread():
        fit(prompt, samples, labels, recipe, cache, report)
        prototypes = prototypes_of(samples, recipe, cache)
    facts = PromptFacts(
        backbone=backbone.identity,
        architecture=backbone.architecture,
        size=backbone.preprocessing.size,
        labels=labels,
        samples=len(samples),
        seed=recipe.seed,
        settings=recipe.facts(),
    )
    return Prompt(prompt.tensors(recipe, prototypes), facts)


def fit(
    prompt: TrainablePrompt,
    samples: Sequence[Sample],
    labels: Sequence[str],
    recipe: Recipe,
    cache: StateCache,
    report: Report,
) -> None:
    """Minimise the cross entropy of the samples by the recipe's AdamW and schedule."""
    device = prompt.head_weight.device
    class_of = {label: index for index, label in enumerate(labels)}
    steps = math.ceil(len(samples) / recipe.batch)  # of an epoch
    optimiser = torch.optim.AdamW(prompt.parameters(), lr=recipe.peak_rate, weight_decay=recipe.weight_decay)
    total = torch.zeros((), device=device)
    for step, seen in enumerate(cache.walk(batches_of(samples, recipe))):
        rate = recipe.rate_at(step, steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        target = torch.tensor([class_of[view.sample.label] for view in seen.views]).to(device)
        loss = F.cross_entropy(prompt.logits(seen), target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += loss.detach() * len(seen.views)
        if (step + 1) % steps == 0:
            epoch = (step + 1) // steps
            mean = float(total) / len(samples)  # the only wait for the device
            if not math.isfinite(mean):
                raise LossNotFinite(f"the loss of epoch {epoch} is {mean}: use a lower rate than {recipe.peak_rate:g}")
            report(Progress(epoch, recipe.epochs, mean, rate))
            total.zero_()


def batches_of(samples: Sequence[Sample], recipe: Recipe) -> Iterator[list[View]]:
    """The batches of a whole training; an epoch's order is a keyed hash, whatever order samples come in."""
    for epoch in range(recipe.epochs):

        def place(sample: Sample, epoch: int = epoch) -> bytes:
            return hashlib.sha256(f"{recipe.seed} {epoch} {sample.digest}".encode()).digest()

        views = [View(sample, recipe.view_at(epoch), recipe.seed) for sample in sorted(samples, key=place)]
        for start in range(0, len(views), recipe.batch):
            yield views[start : start + recipe.batch]


def prototypes_of(samples: Sequence[Sample], recipe: Recipe, cache: StateCache) -> Tensor:
    """The prototypes (K, D) of the samples' class-token embeddings, of the pictures as they are served."""
    batches = (
        [View(sample) for sample in samples[start : start + recipe.batch]]
        for start in range(0, len(samples), recipe.batch)
    )
    embedding = torch.cat([seen.embedding for seen in cache.walk(batches)])
    return kmeans(embedding, recipe.prototypes, recipe.seed)
