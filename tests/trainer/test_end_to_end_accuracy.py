"""On real pictures and a pretrained backbone: every shard learns, and their composition is more accurate."""

from dataclasses import dataclass
from statistics import mean

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.catalog.shard_assignment import split_into_shards
from tests.trainer.pictures import WEIGHTS, Samples, needs_pictures, samples_below, unpack_clothing
from trainer.optimize import EpochProgress
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt
from trainer.views import View

pytestmark = needs_pictures

SHARDS = 4
RECIPE = Recipe(epochs=6, augment="none", base_rate=0.2)


@dataclass(frozen=True)
class TrainedShards:
    """The prompts of four shards of the training pictures, and the test pictures."""

    prompts: dict[str, TrainedPrompt]
    progress: dict[str, list[EpochProgress]]
    backbone: Backbone
    test: Samples


@pytest.fixture(scope="module")
def trained_shards(tmp_path_factory: pytest.TempPathFactory) -> TrainedShards:
    folder = unpack_clothing(tmp_path_factory.mktemp("clothing"))
    backbone = build_backbone("vit_tiny_patch16_224", WEIGHTS, size=96, log=lambda _: None)
    shards = split_into_shards(samples_below(folder / "train"), b"a key", SHARDS)
    prompts: dict[str, TrainedPrompt] = {}
    progress: dict[str, list[EpochProgress]] = {}
    with StateCache(backbone, 2**28, sum(map(len, shards))) as cache:
        for number, shard in enumerate(shards):
            reports: list[EpochProgress] = []
            prompts[str(number)] = train_prompt(backbone, shard, RECIPE, cache, reports.append)
            progress[str(number)] = reports
    return TrainedShards(prompts, progress, backbone, samples_below(folder / "test"))


@pytest.fixture(scope="module")
def predictions(trained_shards: TrainedShards) -> list[ImagePrediction]:
    """The predictions of all shards for each test picture."""
    predictor = Predictor(trained_shards.backbone, trained_shards.prompts)
    images = torch.stack([View(sample).load(trained_shards.backbone.preprocessing) for sample in trained_shards.test])
    return [
        answer
        for batch in torch.split(images, 20)
        for answer in predictor.predict(batch, [tuple(trained_shards.prompts)] * len(batch))
    ]


def test_the_loss_falls_on_every_shard(trained_shards: TrainedShards) -> None:
    for reports in trained_shards.progress.values():
        assert reports[-1].loss < 0.5 * reports[0].loss


def test_composed_shards_are_more_accurate_than_the_mean_shard(
    trained_shards: TrainedShards, predictions: list[ImagePrediction]
) -> None:
    truth = [sample.label for sample in trained_shards.test]
    alone = [
        mean(
            member.labels[int(member.scores.argmax())] == label
            for answer, label in zip(predictions, truth, strict=True)
            for member in answer.members
            if member.name == name
        )
        for name in trained_shards.prompts
    ]

    together = mean(answer.labels[0] == label for answer, label in zip(predictions, truth, strict=True))

    assert min(alone) > 0.3  # chance is one in ten
    assert together > mean(alone)
