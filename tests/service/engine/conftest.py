"""An engine on a small backbone, with a store and forward passes that tests can pause."""

from collections.abc import Iterator

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.access.usable_prompts import UsablePrompt
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import load, new_cache


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def harness(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineHarness]:
    """A harness; at the end it resumes every paused thread."""
    harness = EngineHarness(backbone)
    monkeypatch.setattr(backbone, "embed", harness.embed)
    yield harness
    harness.resume_all()


@pytest.fixture
def prompts(harness: EngineHarness) -> list[UsablePrompt]:
    """Three prompts, each of its own source."""
    return harness.add_prompts(3)


@pytest.fixture
def loaded(harness: EngineHarness) -> list[LoadedPrompt]:
    """Six loaded prompts, each of its own source."""
    return [load(harness, prompt) for prompt in harness.add_prompts(6)]


@pytest.fixture
def cache(harness: EngineHarness) -> PromptCache:
    """A cache with three slots."""
    return new_cache(harness, slots=3)
