"""A running deployment, and its commands as each kind of person gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.fixtures import Ended, run
from tests.service.conftest import deployment, make_deployment  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from tests.service.deployment import Deployment

Ask = Callable[..., Ended]
Told = Callable[..., Any]  # Any: a document


@pytest.fixture
def ask(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Ask:  # noqa: F811  # the fixture
    """How a command of that person ends; who they are is told by the environment."""

    def ask(who: str, *arguments: str | Path) -> Ended:
        monkeypatch.setenv("ALACARTE_URL", deployment.url)
        monkeypatch.setenv("ALACARTE_TOKEN", deployment.tokens[who])
        ended = run("remote", *arguments)
        assert deployment.tokens[who] not in ended.out + ended.err
        return ended

    return ask


@pytest.fixture
def told(ask: Ask) -> Told:
    """The document of a command that succeeds."""

    def told(who: str, *arguments: str | Path) -> Any:  # Any: a document
        ended = ask(who, *arguments, "--json")
        assert ended.code == 0, ended.err
        return ended.document

    return told
