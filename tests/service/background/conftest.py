"""Background tests run on SQLite and a folder."""

import pytest

from tests.service.engine.conftest import harness  # noqa: F401  # a fixture


@pytest.fixture
def backend() -> str:
    return "sqlite-folder"
