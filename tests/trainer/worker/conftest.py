"""A registry with pictures to train on."""

from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.registry import Registry
from tests.cli.fixtures import draw
from tests.trainer.worker.fixtures import WorkerHarness


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Class folders with twelve pictures of three labels."""
    return draw(tmp_path / "pictures", each=4)


@pytest.fixture
def harness(registry: Registry, backbone: Backbone, pictures: Path) -> WorkerHarness:
    return WorkerHarness(registry, backbone, pictures)
