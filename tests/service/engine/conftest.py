"""Prompts in the store of an engine harness, and loaded into a cache."""

import pytest

from registry.access.usable_prompts import UsablePrompt
from service.engine.prompt_cache import PromptCache
from service.engine.prompt_loader import LoadedPrompt
from tests.service.engine.fixtures import EngineHarness
from tests.service.engine.prompt_cache_fixtures import load, new_cache


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
