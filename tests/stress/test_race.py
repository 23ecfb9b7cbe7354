"""Deletion and revocation race against prediction on the production shape: no later answer uses what was removed."""

import sys
from collections import Counter

import pytest

from tests.e2e.cluster import Cluster
from tests.stress.conftest import REPLICA
from tests.stress.race.checker import count_overlaps, find_violations
from tests.stress.race.fixtures import create_race_setup, true_scores
from tests.stress.race.race import run_race

SHORT, SHORT_SECONDS = 250, 300.0
FULL, FULL_SECONDS = 10_000, 7200.0


def race(cluster: Cluster, raced: int = SHORT, limit_s: float = SHORT_SECONDS, seed: int = 0) -> Counter[str]:
    """Race through the proxy and directly at each replica; print a report and count the violations of each kind."""
    setup = create_race_setup(cluster.url, cluster.admin_token)
    addresses = [cluster.url, *cluster.replica_urls]
    history = run_race(addresses, cluster.admin_token, setup, raced=raced, limit_s=limit_s, seed=seed)
    violations = find_violations(history, true_scores)
    kinds = Counter(one.kind for one in violations)
    lines = [
        str(overlaps := count_overlaps(history)),
        f"answers by status: {dict(Counter(call.status for call in history.calls))}",
        f"writes: {dict(Counter(write.operation for write in history.writes))}",
        f"violations: {dict(kinds)}",
        *(f"  {one.kind}: {one.call.client} {one.detail}" for one in violations[:5]),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert overlaps.raced >= raced
    return kinds


def test_deletion_and_revocation_are_linearizable(race_cluster: Cluster) -> None:
    assert race(race_cluster) == {}


def test_the_checker_finds_violations_without_the_recheck_of_rights(race_cluster: Cluster) -> None:
    race_cluster.restart_replicas((*REPLICA, "unchecked"))

    kinds = race(race_cluster)

    assert kinds["unchecked"] > 0
    assert kinds["gone"] == 0  # rights are still read first, so no request was sent after the removal


@pytest.mark.stress
@pytest.mark.parametrize(("fault", "kind"), [("cached", "gone"), ("unnamed", "scores")])
def test_the_checker_finds_and_names_other_faults(race_cluster: Cluster, fault: str, kind: str) -> None:
    race_cluster.restart_replicas((*REPLICA, fault))

    assert race(race_cluster)[kind] > 0


@pytest.mark.stress
def test_ten_thousand_overlaps_are_linearizable(race_cluster: Cluster) -> None:
    race_cluster.restart_replicas(REPLICA)

    assert race(race_cluster, FULL, FULL_SECONDS, seed=1) == {}
