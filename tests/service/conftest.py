"""Running deployments: one shared by the tests of a module, or one with its own settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # importing torch takes seconds, and other tests of the session may not need it
    from alacarte.prompting.backbone.vit import Backbone
    from tests.service.deployment import Deployment
    from tests.service.engine.fixtures import EngineHarness

MakeDeployment = Callable[..., "Deployment"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def backend() -> str:
    """Tests of the service run on SQLite and a folder."""
    return "sqlite-folder"


@pytest.fixture
def harness(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineHarness]:
    """An engine harness; at the end it resumes every paused thread."""
    from tests.service.engine.fixtures import EngineHarness

    harness = EngineHarness(backbone)
    monkeypatch.setattr(backbone, "embed", harness.embed)
    yield harness
    harness.resume_all()


@pytest.fixture(scope="module")
def make_deployment(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeDeployment]:
    """Run deployments on SQLite and a folder, with the given settings."""
    from service.settings import ServiceSettings
    from tests.service.server_fixture import run_deployment

    with contextlib.ExitStack() as stack:

        def make(**settings: Any) -> Deployment:  # Any: settings of the service
            home = tmp_path_factory.mktemp("home")
            (home / "registry.db").write_bytes(sqlite_template.read_bytes())
            return stack.enter_context(
                run_deployment(ServiceSettings(home=home, database="", objects="", weights="random", **settings))
            )

        yield make


@pytest.fixture(scope="module")
def deployment(make_deployment: MakeDeployment) -> Deployment:
    """A running deployment that the tests of a module share."""
    return make_deployment()
