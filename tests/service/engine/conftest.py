"""An engine on a small backbone, a store that counts and can be held, and pictures that cost nothing."""

from collections.abc import Iterator

import pytest

from alacarte.prompting.backbone.vit import Backbone
from service.engine.prompt_loader import LoadedPrompt
from tests.prompting.reference import small_prompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import loaded


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def harness(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineHarness]:
    """A harness of its own; whatever it holds back is let go at the end, so that no thread waits for ever."""
    harness = EngineHarness(backbone)
    monkeypatch.setattr(backbone, "embed", harness.embed)
    yield harness
    harness.resume_all()


@pytest.fixture
def cast(harness: EngineHarness) -> list[LoadedPrompt]:
    """Prompts of a source each, on their way."""
    usable = [harness.add(small_prompt(harness.backbone, seed=seed), source=seed) for seed in range(6)]
    return [loaded(harness, prompt) for prompt in usable]
