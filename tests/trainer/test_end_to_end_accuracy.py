"""On real pictures and a pretrained backbone: every shard learns, and their composition is more accurate."""

import tarfile
from pathlib import Path
from statistics import mean

import pytest
import torch

from alacarte.prompting.backbone.vit import build_backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.catalog.shard_assignment import split_into_shards
from tests.trainer.pictures import SHARED, WEIGHTS, Samples, as_sample
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt
from trainer.views import View

CLOTHING = SHARED / "data" / "clothing10-tiny.tar.gz"
RECIPE = Recipe(epochs=6, augment="none", base_rate=0.2)


def samples_below(folder: Path) -> Samples:
    return tuple(as_sample(path, path.parent.name) for path in sorted(folder.glob("*/*.jpg")))


@pytest.mark.skipif(
    not (WEIGHTS.exists() and CLOTHING.exists()),
    reason=f"no {WEIGHTS.name} and {CLOTHING.name} in shared/ beside the repository",
)
def test_every_shard_learns_and_composed_shards_are_more_accurate_than_the_mean_shard(tmp_path: Path) -> None:
    with tarfile.open(CLOTHING) as archive:
        archive.extractall(tmp_path, filter="data")
    train, test = (samples_below(tmp_path / "clothing10-tiny" / part) for part in ("train", "test"))
    backbone = build_backbone("vit_tiny_patch16_224", WEIGHTS, size=96, log=lambda _: None)
    prompts: dict[str, TrainedPrompt] = {}
    with StateCache(backbone, 2**28, len(train)) as cache:
        for number, shard in enumerate(split_into_shards(train, b"a key", 4)):
            reports: list[EpochProgress] = []
            prompts[str(number)] = train_prompt(backbone, shard, RECIPE, cache, reports.append)
            assert reports[-1].loss < 0.5 * reports[0].loss
    predictor = Predictor(backbone, prompts)
    images = torch.stack([View(sample).load(backbone.preprocessing) for sample in test])

    predictions = [
        answer
        for batch in torch.split(images, 20)
        for answer in predictor.predict(batch, [tuple(prompts)] * len(batch))
    ]

    truth = [sample.label for sample in test]
    alone = [
        mean(
            member.labels[int(member.scores.argmax())] == label
            for answer, label in zip(predictions, truth, strict=True)
            for member in answer.members
            if member.name == name
        )
        for name in prompts
    ]
    together = mean(answer.labels[0] == label for answer, label in zip(predictions, truth, strict=True))
    assert min(alone) > 0.3  # chance is one in ten
    assert together > mean(alone)
