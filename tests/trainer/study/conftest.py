"""A study of small pictures with a small backbone, so that every experiment takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import draw_samples
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.study.plan import StudyPlan
from trainer.study.result_cache import ResultCache
from trainer.study.runner import StudyRunner
from trainer.study.train_test_split import DomainSplit

RECIPE = Recipe(epochs=4, batch=8, augment="none", prototypes=2)


@pytest.fixture(scope="session")
def backbone() -> Backbone:
    return small_backbone()


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StudyPlan:
    """Two domains of the same three labels."""
    samples = draw_samples(tmp_path_factory.mktemp("pictures"), 96)
    return StudyPlan(
        name="flowers-like",
        domains=(DomainSplit("left", samples[:36], samples[36:48]), DomainSplit("right", samples[48:84], samples[84:])),
        recipe=RECIPE,
        joint_recipe=RECIPE,
        tuned_recipe=RECIPE,
        shard_counts=(2, 3),
        removal_shards=4,
        removal_orders=3,
        episodes=1,
    )


@pytest.fixture
def runner(backbone: Backbone, tmp_path: Path) -> Iterator[StudyRunner]:
    with StateCache(backbone, 10**9, 200, tmp_path) as cache:
        yield StudyRunner(backbone, cache, ResultCache(tmp_path / "cache"), lambda _: None)
