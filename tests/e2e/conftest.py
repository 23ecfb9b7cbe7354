"""The production shape for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # importing boto3 and SQLAlchemy takes a second, and other tests may not need them
    from tests.e2e.cluster import Cluster


@pytest.fixture
def workers() -> int:
    return 2


@pytest.fixture
def production(workers: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two replicas behind a proxy and two workers, on PostgreSQL and S3; a failure shows the end of their logs."""
    from tests.e2e.cluster import start_cluster

    with start_cluster(tmp_path, workers=workers) as cluster:
        yield cluster
        request.node.add_report_section("teardown", "logs", cluster.logs())
