"""The production shape, up before a test and gone after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # boto3 and SQLAlchemy take a second, and other tests of this session may never need them
    from tests.e2e.cluster import Cluster


@pytest.fixture
def workers() -> int:
    """How many workers the cluster of a test has."""
    return 2


@pytest.fixture
def production(workers: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two replicas behind a proxy and two workers, on PostgreSQL and S3; how their logs end is shown on a failure."""
    from tests.e2e.cluster import start_cluster
    from tests.e2e.proxy import NO_NGINX, find_nginx

    if find_nginx() is None:
        pytest.skip(NO_NGINX)
    with start_cluster(tmp_path, workers=workers) as found:
        yield found
        request.node.add_report_section("teardown", "logs", found.logs())
