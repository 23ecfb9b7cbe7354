"""The training loop: cross entropy, AdamW and the recipe's schedule, whatever the logits are made from."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.errors import LossNotFinite
from trainer.recipe import RATE_BATCH, Recipe
from trainer.views import View

# B pictures of a batch, C labels


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training is, once an epoch."""

    epoch: int  # that has ended, counted from 1
    epochs: int
    loss: float  # mean of the epoch
    rate: float  # of its last step


ReportProgress = Callable[[TrainingProgress], None]


class ViewBatch(Protocol):
    """Whatever comes with the views that it was made from."""

    @property
    def views(self) -> Sequence[View]: ...


AnyBatch = TypeVar("AnyBatch", bound=ViewBatch)


def optimize(
    parameters: Sequence[Tensor],
    batches: Iterable[AnyBatch],
    logits: Callable[[AnyBatch], Tensor],
    labels: Sequence[str],
    samples: int,
    recipe: Recipe,
    report: ReportProgress,
) -> None:
    """Move the parameters so that the logits (B, C) of the batches of all epochs tell the samples' labels."""
    device = parameters[0].device
    class_of = {label: index for index, label in enumerate(labels)}
    steps = math.ceil(samples / recipe.batch)  # of an epoch
    optimiser = torch.optim.AdamW(parameters, lr=recipe.peak_rate, weight_decay=recipe.weight_decay)
    total = torch.zeros((), device=device)
    for step, batch in enumerate(batches):
        rate = recipe.rate_at(step, steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        target = torch.tensor([class_of[view.sample.label] for view in batch.views]).to(device)
        loss = F.cross_entropy(logits(batch), target, label_smoothing=recipe.label_smoothing)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += loss.detach() * len(batch.views)
        if (step + 1) % steps == 0:
            epoch = (step + 1) // steps
            mean = float(total) / samples  # the loss waits for the device once an epoch
            if not math.isfinite(mean):
                raise LossNotFinite(f"the loss of epoch {epoch} is {mean}: {_advice(recipe)}")
            report(TrainingProgress(epoch, recipe.epochs, mean, rate))
            total.zero_()
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):  # the last step has no loss after it
        raise LossNotFinite(f"the last step left the finite numbers: {_advice(recipe)}")


def _advice(recipe: Recipe) -> str:
    return f"use a lower rate than {recipe.peak_rate * RATE_BATCH / recipe.batch:g}"
