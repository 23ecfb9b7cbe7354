"""Fixtures of several tests: pictures, prompts trained on them, and the registry that commands find."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.prompting.threads import one_thread
from tests.cli.fixtures import TINY, draw, run
from tests.service.conftest import deployment, make_deployment  # noqa: F401  # fixtures


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """For so little arithmetic one thread is faster than several."""
    with one_thread():
        yield


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("data") / "pictures")


@pytest.fixture(scope="session")
def prompts(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the prompts of two shards."""
    folder = tmp_path_factory.mktemp("trained") / "prompts"
    assert run("train", pictures, "--out", folder, "--shards", "2", *TINY).code == 0
    return folder


@pytest.fixture
def at_home(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of this test is the one that commands find."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)
