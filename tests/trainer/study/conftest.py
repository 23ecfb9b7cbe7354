"""A study of little pictures with a little backbone, so that every experiment takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from tests.prompting.reference import small_backbone
from tests.trainer.pictures import draw_samples
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.study.plan import Part, Plan
from trainer.study.run_store import Kept
from trainer.study.runner import Laboratory

RECIPE = Recipe(epochs=4, batch=8, augment="none", prototypes=2)


@pytest.fixture(scope="session")
def backbone() -> Backbone:
    return small_backbone()


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two domains of the same three labels."""
    samples = draw_samples(tmp_path_factory.mktemp("pictures"), 96)
    return Plan(
        name="flowers-like",
        parts=(Part("left", samples[:36], samples[36:48]), Part("right", samples[48:84], samples[84:])),
        recipe=RECIPE,
        joint=RECIPE,
        tuned=RECIPE,
        counts=(2, 3),
        forgetful=4,
        orders=3,
        episodes=1,
    )


@pytest.fixture
def laboratory(backbone: Backbone, tmp_path: Path) -> Iterator[Laboratory]:
    with StateCache(backbone, 10**9, 200, tmp_path) as cache:
        yield Laboratory(backbone, cache, Kept(tmp_path / "kept"), lambda _: None)
