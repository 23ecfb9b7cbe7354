"""Time to train on one image for one epoch: `python -m bench.train [--json] [--quick]`.

With and without the state cache, against the straightforward implementation: all tokens in one masked sequence, with
autograd through all of them. Pictures, batch and frozen backbone are the same in all three.
"""

import argparse
import functools
import tempfile
from collections.abc import Callable, Sequence
from math import floor
from pathlib import Path

import numpy as np
from PIL import Image

from alacarte.prompting.backbone.vit import Backbone, build_backbone
from bench.output import TableRow, print_tables
from bench.timing import measure
from registry.datasets.dataset import LabelledPicture
from registry.datasets.loader import open_dataset
from trainer.baselines.joint_training import fit_joint
from trainer.prompt_params import TrainablePrompt
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import fit, shard_labels

CLASSES = 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny_patch16_224")
    parser.add_argument("--size", type=int, default=384, help="the paper's resolution by default")
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer pictures and rounds")
    options = parser.parse_args()
    pictures = 32 if options.quick else options.pictures

    backbone = build_backbone(options.backbone, weights="random", size=options.size)
    recipe = Recipe(epochs=1, augment="none")
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(Path(folder), pictures, floor(backbone.preprocessing.size / backbone.preprocessing.crop_pct))
        with (
            open_dataset(Path(folder)) as collection,
            StateCache(backbone) as no_cache,
            StateCache(backbone, budget_bytes=16 * 2**30, views=pictures) as full_cache,
        ):
            epoch = functools.partial(structured_epoch, backbone, collection.samples, recipe)
            contenders: dict[str, Callable[[], object]] = {
                "straightforward": functools.partial(joint_epoch, backbone, collection.samples, recipe),
                "structured": functools.partial(epoch, no_cache),
                "structured, cached": functools.partial(epoch, full_cache),
            }
            results = measure(contenders, rounds=2 if options.quick else 8)
    baseline = results["straightforward"].seconds
    rows: list[TableRow] = [
        {
            "method": name,
            "ms_per_image": result.seconds * 1000 / pictures,
            "speedup": baseline / result.seconds,
            "peak_mb": result.peak_mb,
        }
        for name, result in results.items()
    ]
    summary: dict[str, object] = {
        "backbone": backbone.architecture,
        "size": backbone.preprocessing.size,
        "batch": recipe.batch,
        "pictures": pictures,
        "speedup": baseline / results["structured"].seconds,
        "speedup_cached": baseline / results["structured, cached"].seconds,
    }
    print_tables({"one image, one epoch": rows}, summary, options.json)


def make_pictures(folder: Path, count: int, side: int) -> None:
    """Write pictures of noise into class folders, as BMP files, which are quick to read."""
    random = np.random.default_rng(0)
    for index in range(count):
        label = folder / f"class-{index % CLASSES}"
        label.mkdir(exist_ok=True)
        pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(label / f"{index}.bmp")


def structured_epoch(backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe, cache: StateCache) -> None:
    """Run an epoch as the trainer does."""
    labels = shard_labels(samples)
    fit(TrainablePrompt(backbone, recipe, len(labels)), samples, labels, recipe, cache, lambda _: None)


def joint_epoch(backbone: Backbone, samples: Sequence[LabelledPicture], recipe: Recipe) -> None:
    """Run an epoch with all tokens in one sequence and gradients through all of them; the backbone is frozen."""
    labels = shard_labels(samples)
    prompt = TrainablePrompt(backbone, recipe, len(labels))
    fit_joint(prompt, backbone, samples, labels, recipe, "structured", lambda _: None)


if __name__ == "__main__":
    main()
