"""The training loop: cross entropy, AdamW and the learning-rate schedule, for any function that gives logits."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.errors import LossNotFinite
from trainer.recipe import Recipe
from trainer.schedule import base_rate, learning_rate, peak_rate
from trainer.views import View

# B pictures of a batch, C labels


@dataclass(frozen=True)
class EpochProgress:
    """Reported at the end of every epoch."""

    epoch: int  # counted from 1
    epochs: int
    loss: float  # mean of the epoch
    rate: float  # of its last step


ReportProgress = Callable[[EpochProgress], None]


class ViewBatch(Protocol):
    """A batch, with the views that it was made from."""

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
    """Fit the parameters so that the logits (B, C) of the batches of all epochs predict the samples' labels."""
    device = parameters[0].device
    class_of = {label: index for index, label in enumerate(labels)}
    steps_per_epoch = math.ceil(samples / recipe.batch)
    optimizer = torch.optim.AdamW(parameters, lr=peak_rate(recipe), weight_decay=recipe.weight_decay)
    total = torch.zeros((), device=device)
    for step, batch in enumerate(batches):
        rate = learning_rate(recipe, step, steps_per_epoch)
        for group in optimizer.param_groups:
            group["lr"] = rate
        target = torch.tensor([class_of[view.sample.label] for view in batch.views]).to(device)  # (B)
        loss = F.cross_entropy(logits(batch), target, label_smoothing=recipe.label_smoothing)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.detach() * len(batch.views)
        if (step + 1) % steps_per_epoch == 0:
            epoch = (step + 1) // steps_per_epoch
            mean = float(total) / samples  # waits for the device, so only once an epoch
            if not math.isfinite(mean):
                raise LossNotFinite(f"the loss of epoch {epoch} is {mean}: {_advice(recipe)}")
            report(EpochProgress(epoch, recipe.epochs, mean, rate))
            total.zero_()
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):  # no loss follows the last step
        raise LossNotFinite(f"the last step left parameters that are not finite: {_advice(recipe)}")


def _advice(recipe: Recipe) -> str:
    return f"use a lower rate than {base_rate(recipe):g}"
