"""The production shape with replicas that tell when they had computed an answer, shared by the races of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # torch takes seconds, and the tests of the checker never need it
    from tests.e2e.deployment import Topology

REPLICA = (sys.executable, "-m", "tests.stress.race.replica")


@pytest.fixture(scope="module")
def stress_topology(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    """Two replicas behind a proxy, on PostgreSQL and S3."""
    from tests.e2e.deployment import topology
    from tests.e2e.proxy import NO_NGINX, find_nginx

    if find_nginx() is None:
        pytest.skip(NO_NGINX)
    with topology(tmp_path_factory.mktemp("topology"), workers=0, serve=REPLICA) as found:
        yield found


@pytest.fixture(autouse=True)
def tell_logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """How the logs end is shown with a test that fails."""
    yield
    if "stress_topology" in request.fixturenames:
        request.node.add_report_section("teardown", "logs", request.getfixturevalue("stress_topology").logs())
