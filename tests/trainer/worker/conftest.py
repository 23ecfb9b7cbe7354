"""Pictures to train on."""

from pathlib import Path

import pytest

from tests.cli.fixtures import draw


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Class folders with twelve pictures of three labels."""
    return draw(tmp_path / "pictures", each=4)
