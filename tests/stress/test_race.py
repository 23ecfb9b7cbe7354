"""Deletion and revocation race against prediction on the production shape: no later answer uses what was removed."""

import sys

import pytest

from tests.e2e.cluster import Cluster
from tests.stress.conftest import REPLICA
from tests.stress.race.checks import RaceReport, check_history
from tests.stress.race.fixtures import create_race_setup
from tests.stress.race.race import run_race

SHORT, SHORT_SECONDS = 250, 300.0
FULL, FULL_SECONDS = 10_000, 7200.0


def race(cluster: Cluster, raced: int, limit_s: float, seed: int = 0) -> RaceReport:
    """Run a race through the proxy and directly at each replica."""
    setup = create_race_setup(cluster.url, cluster.admin_token)
    addresses = [cluster.url, *cluster.replica_urls]
    report = check_history(run_race(addresses, cluster.admin_token, setup, raced=raced, limit_s=limit_s, seed=seed))
    sys.stdout.write(f"\n{report}\n")
    return report


def test_deletion_and_revocation_are_linearizable(race_cluster: Cluster) -> None:
    report = race(race_cluster, SHORT, SHORT_SECONDS)

    assert report.violations == ()
    assert report.overlaps.raced >= SHORT


def test_the_checker_finds_violations_without_the_recheck_of_rights(race_cluster: Cluster) -> None:
    race_cluster.restart_replicas((*REPLICA, "unchecked"))

    report = race(race_cluster, SHORT, SHORT_SECONDS)

    assert report.kinds["unchecked"] > 0
    assert report.kinds["gone"] == 0  # rights are still read first, so no request was sent after the removal


@pytest.mark.stress
@pytest.mark.parametrize(("fault", "kind"), [("cached", "gone"), ("unnamed", "scores")])
def test_the_checker_finds_and_names_other_faults(race_cluster: Cluster, fault: str, kind: str) -> None:
    race_cluster.restart_replicas((*REPLICA, fault))

    assert race(race_cluster, SHORT, SHORT_SECONDS).kinds[kind] > 0


@pytest.mark.stress
def test_ten_thousand_overlaps_are_linearizable(race_cluster: Cluster) -> None:
    race_cluster.restart_replicas(REPLICA)

    report = race(race_cluster, FULL, FULL_SECONDS, seed=1)

    assert report.violations == ()
    assert report.overlaps.raced >= FULL
