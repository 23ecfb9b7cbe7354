"""An engine on a small backbone, a store that counts and can be held, and pictures that cost nothing."""

from collections.abc import Iterator

import pytest

from alacarte.prompting.backbone.vit import Backbone
from service.engine.prompt_loader import Loaded
from tests.prompting.reference import small_prompt
from tests.service.engine.cache_fixtures import loaded
from tests.service.engine.fixtures import Stage


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def stage(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage of its own; whatever it holds back is let go at the end, so that no thread waits for ever."""
    stage = Stage(backbone)
    monkeypatch.setattr(backbone, "embed", stage.embed)
    yield stage
    stage.let_all_go()


@pytest.fixture
def cast(stage: Stage) -> list[Loaded]:
    """Prompts of a source each, on their way."""
    usable = [stage.add(small_prompt(stage.backbone, seed=seed), source=seed) for seed in range(6)]
    return [loaded(stage, prompt) for prompt in usable]
