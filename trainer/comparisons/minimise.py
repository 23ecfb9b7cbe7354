"""The training loop of the comparisons: cross entropy, AdamW and the recipe's schedule, over pixels.

Unlike `trainer.train` it does not hold itself to one thread: a baseline may use the whole machine. With the
same number of threads the same seed gives the same bytes; `trainer.threads.one_thread` around it fixes them.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.preprocess import Preprocessing
from registry.reading.sample import Sample
from trainer.comparisons.pictures import load_batches
from trainer.errors import LossNotFinite
from trainer.recipe import Recipe
from trainer.train import Progress, Report, batches_of

# B pictures, C labels, S side


def minimise(
    parameters: Sequence[Tensor],
    logits: Callable[[Tensor], Tensor],
    samples: Sequence[Sample],
    labels: Sequence[str],
    preprocessing: Preprocessing,
    recipe: Recipe,
    report: Report,
) -> None:
    """Move the parameters so that logits (B, C) of images (B, 3, S, S) tell the samples' labels."""
    class_of = {label: index for index, label in enumerate(labels)}
    steps = math.ceil(len(samples) / recipe.batch)  # of an epoch
    optimiser = torch.optim.AdamW(parameters, lr=recipe.peak_rate, weight_decay=recipe.weight_decay)
    device = parameters[0].device
    total = torch.zeros((), device=device)
    for step, pictures in enumerate(load_batches(batches_of(samples, recipe), preprocessing)):
        rate = recipe.rate_at(step, steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        target = torch.tensor([class_of[view.sample.label] for view in pictures.views]).to(device)
        loss = F.cross_entropy(logits(pictures.images), target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += loss.detach() * len(pictures.views)
        if (step + 1) % steps == 0:
            epoch = (step + 1) // steps
            mean = float(total) / len(samples)  # the only wait for the device
            if not math.isfinite(mean):
                raise LossNotFinite(f"the loss of epoch {epoch} is {mean}: use a lower rate than {recipe.peak_rate:g}")
            report(Progress(epoch, recipe.epochs, mean, rate))
            total.zero_()
