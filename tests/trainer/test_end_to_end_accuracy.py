"""On real pictures and a pretrained backbone: every shard learns, and together they know more than alone."""

from dataclasses import dataclass
from statistics import mean

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.tensors import TrainedPrompt
from registry.catalog.shard_assignment import split_into_shards
from registry.datasets.dataset import LabelledPicture
from tests.trainer.pictures import WEIGHTS, needs_pictures, samples_below, unpack_clothing
from trainer.optimize import TrainingProgress
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.train import train_prompt
from trainer.views import View

pytestmark = needs_pictures

SHARDS = 4
RECIPE = Recipe(epochs=6, augment="none", base_rate=0.2)


@dataclass(frozen=True)
class Lesson:
    """What four shards of the training pictures taught, and the test pictures."""

    prompts: dict[str, TrainedPrompt]
    progress: dict[str, list[TrainingProgress]]
    backbone: Backbone
    test: tuple[LabelledPicture, ...]


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    folder = unpack_clothing(tmp_path_factory.mktemp("clothing"))
    backbone = build_backbone("vit_tiny_patch16_224", WEIGHTS, size=96, log=lambda _: None)
    shards = split_into_shards(samples_below(folder / "train"), b"a key", SHARDS)
    prompts: dict[str, TrainedPrompt] = {}
    progress: dict[str, list[TrainingProgress]] = {}
    with StateCache(backbone, 2**28, sum(map(len, shards))) as cache:
        for number, shard in enumerate(shards):
            told: list[TrainingProgress] = []
            prompts[str(number)] = train_prompt(backbone, shard, RECIPE, cache, told.append)
            progress[str(number)] = told
    return Lesson(prompts, progress, backbone, samples_below(folder / "test"))


@pytest.fixture(scope="module")
def answers(lesson: Lesson) -> list[ImagePrediction]:
    """What all shards together say about each test picture, and each by itself as a member."""
    predictor = Predictor(lesson.backbone, lesson.prompts)
    images = torch.stack([View(sample).load(lesson.backbone.preprocessing) for sample in lesson.test])
    return [
        answer
        for batch in torch.split(images, 20)
        for answer in predictor.predict(batch, [tuple(lesson.prompts)] * len(batch))
    ]


def test_the_loss_falls_on_every_shard(lesson: Lesson) -> None:
    for told in lesson.progress.values():
        assert told[-1].loss < 0.5 * told[0].loss


def test_composed_shards_know_more_than_the_mean_shard_alone(lesson: Lesson, answers: list[ImagePrediction]) -> None:
    truth = [sample.label for sample in lesson.test]
    alone = [
        mean(
            member.labels[int(member.scores.argmax())] == label
            for answer, label in zip(answers, truth, strict=True)
            for member in answer.members
            if member.name == name
        )
        for name in lesson.prompts
    ]

    together = mean(answer.labels[0] == label for answer, label in zip(answers, truth, strict=True))

    assert min(alone) > 0.3  # chance is one in ten
    assert together > mean(alone)
