"""An uploader on each pair of database and store, and faults at the failpoints of an upload."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from registry import failpoints
from registry.registry import Registry
from tests.registry.ingest.fixtures import AtFailpoint, Uploader

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


@pytest.fixture
def uploader(registry: Registry, builder: DatasetBuilder) -> Uploader:
    return Uploader(registry, builder)


@pytest.fixture
def at_failpoint(monkeypatch: pytest.MonkeyPatch) -> AtFailpoint:
    """Call a function once, when an upload hits a failpoint; by default with its objects written, but not its rows."""

    def set_up(act: Callable[[], object], point: str = "upload: objects written") -> None:
        def on_hit(reached: str) -> None:
            if reached == point:
                failpoints.on_hit = None
                act()

        monkeypatch.setattr(failpoints, "on_hit", on_hit)

    return set_up
