"""A running service, and commands given to it by users of each role."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.fixtures import Ended, run

if TYPE_CHECKING:
    from tests.service.deployment import Deployment

RunAs = Callable[..., Ended]
JsonAs = Callable[..., Any]  # Any: a JSON document


@pytest.fixture
def run_as(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> RunAs:
    """Run a command as a user, whose token is in the environment."""

    def run_as(user: str, *arguments: str | Path) -> Ended:
        monkeypatch.setenv("ALACARTE_URL", deployment.url)
        monkeypatch.setenv("ALACARTE_TOKEN", deployment.tokens[user])
        ended = run(*arguments)
        assert deployment.tokens[user] not in ended.out + ended.err
        return ended

    return run_as


@pytest.fixture
def json_as(run_as: RunAs) -> JsonAs:
    """Run a command with `--json` as a user, require that it succeeds, and return its document."""

    def json_as(user: str, *arguments: str | Path) -> Any:  # Any: a JSON document
        ended = run_as(user, *arguments, "--json")
        assert ended.code == 0, ended.err
        return ended.document

    return json_as
