"""An engine on a small backbone, a store that counts and can be held, and pictures that cost nothing."""

from collections.abc import Iterator

import pytest

from alacarte.prompting.backbone import Backbone
from tests.service.engine.stage import Stage


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
