"""The production shape with instrumented replicas, shared by the races of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # importing torch takes seconds, and the tests of the checker do not need it
    from tests.e2e.cluster import Cluster

REPLICA = (sys.executable, "-m", "tests.stress.faulty_server")


@pytest.fixture(scope="module")
def race_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two replicas behind a proxy, on PostgreSQL and S3."""
    from tests.e2e.cluster import start_cluster

    with start_cluster(tmp_path_factory.mktemp("cluster"), workers=0, serve=REPLICA) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def attach_logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attach the end of the logs to the report of a failed test."""
    clusters = [
        request.getfixturevalue(name) for name in ("race_cluster", "crash_cluster") if name in request.fixturenames
    ]
    yield
    for cluster in clusters:
        request.node.add_report_section("teardown", "logs", cluster.logs())
