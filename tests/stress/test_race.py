"""Forgetting and revoking against asking, on the production shape: what was taken is in no answer from then on."""

import sys

import pytest

from tests.e2e.deployment import Topology
from tests.stress.conftest import REPLICA
from tests.stress.race.checks import Verdict, judge
from tests.stress.race.fixtures import set_stage
from tests.stress.race.race import run_race

SHORT, SHORT_SECONDS = 250, 300.0
FULL, FULL_SECONDS = 10_000, 7200.0


def race(topology: Topology, raced: int, limit_s: float, seed: int = 0) -> Verdict:
    """Through the proxy and at each replica, as clients of both kinds do."""
    stage = set_stage(topology.url, topology.admin_token)
    addresses = [topology.url, *topology.replica_urls]
    verdict = judge(run_race(addresses, topology.admin_token, stage, raced=raced, limit_s=limit_s, seed=seed))
    sys.stdout.write(f"\n{verdict}\n")
    return verdict


def test_deletion_and_revocation_are_linearizable(stress_topology: Topology) -> None:
    verdict = race(stress_topology, SHORT, SHORT_SECONDS)

    assert verdict.violations == ()
    assert verdict.overlaps.raced >= SHORT


def test_without_the_last_look_at_rights_the_checker_finds_violations(stress_topology: Topology) -> None:
    stress_topology.restart_replicas((*REPLICA, "unchecked"))

    verdict = race(stress_topology, SHORT, SHORT_SECONDS)

    assert verdict.kinds["unchecked"] > 0
    assert verdict.kinds["gone"] == 0  # the first look is still there: none was sent after what it uses had gone


@pytest.mark.stress
@pytest.mark.parametrize(("fault", "kind"), [("cached", "gone"), ("unnamed", "scores")])
def test_other_faults_are_found_and_called_by_their_names(stress_topology: Topology, fault: str, kind: str) -> None:
    stress_topology.restart_replicas((*REPLICA, fault))

    assert race(stress_topology, SHORT, SHORT_SECONDS).kinds[kind] > 0


@pytest.mark.stress
def test_ten_thousand_overlaps_are_linearizable(stress_topology: Topology) -> None:
    stress_topology.restart_replicas(REPLICA)

    verdict = race(stress_topology, FULL, FULL_SECONDS, seed=1)

    assert verdict.violations == ()
    assert verdict.overlaps.raced >= FULL
