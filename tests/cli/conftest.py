"""Pictures and prompts that several tests look at, made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.prompting.threads import one_thread
from tests.cli.fixtures import TINY, draw, run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """So little arithmetic is done sooner by one thread than by several that wait for each other."""
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
