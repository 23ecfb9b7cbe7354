"""What tests of several packages share; made once, and only when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import hypothesis
import pytest

from registry.datasets.dataset import LabelledPicture
from tests.trainer.pictures import draw_samples

if TYPE_CHECKING:  # torch takes seconds, and most tests of the registry never need it
    from alacarte.prompting.backbone.vit import Backbone

pytest_plugins = ["tests.servers.fixtures", "tests.registry.database_fixtures"]

# No test asserts a time: a busy machine is no fault of the code.
hypothesis.settings.register_profile("steady", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session")
def backbone_of() -> Callable[[str], Backbone]:
    """Small backbones by their kind, each made once."""
    from tests.prompting.reference import small_backbone

    made: dict[str, Backbone] = {}

    def backbone(kind: str) -> Backbone:
        if kind not in made:
            made[kind] = small_backbone(kind)
        return made[kind]

    return backbone


@pytest.fixture(scope="session")
def backbone(backbone_of: Callable[[str], Backbone]) -> Backbone:
    """A small plain ViT with random weights."""
    return backbone_of("plain")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[LabelledPicture, ...]:
    """Twelve small pictures of three labels, that a colour tells apart, in the order they were drawn."""
    return draw_samples(tmp_path_factory.mktemp("pictures"), 12)
