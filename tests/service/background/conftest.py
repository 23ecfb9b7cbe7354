"""Background tests run on SQLite and a folder."""

import pytest


@pytest.fixture
def home() -> str:
    return "sqlite-folder"
