"""Forgetting and revoking against asking, on the production shape: what was taken is in no answer from then on."""

import sys

import pytest

from tests.fire.conftest import REPLICA
from tests.fire.race import run_race
from tests.fire.stage import set_stage
from tests.fire.verdict import Verdict, judge
from tests.topology.topology import Topology

SHORT, SHORT_SECONDS = 250, 300.0
FULL, FULL_SECONDS = 10_000, 7200.0


def race(topology: Topology, raced: int, limit_s: float, seed: int = 0) -> Verdict:
    """Through the proxy and at each replica, as clients of both kinds do."""
    stage = set_stage(topology.url, topology.admin_token)
    addresses = [topology.url, *topology.replica_urls]
    verdict = judge(run_race(addresses, topology.admin_token, stage, raced=raced, limit_s=limit_s, seed=seed))
    sys.stdout.write(f"\n{verdict}\n")
    return verdict


def test_deletion_and_revocation_are_linearizable(fire_topology: Topology) -> None:
    verdict = race(fire_topology, SHORT, SHORT_SECONDS)

    assert verdict.violations == ()
    assert verdict.overlaps.raced >= SHORT


def test_without_the_last_look_at_rights_the_checker_finds_violations(fire_topology: Topology) -> None:
    fire_topology.restart_replicas((*REPLICA, "unchecked"))

    verdict = race(fire_topology, SHORT, SHORT_SECONDS)

    assert verdict.kinds["unchecked"] > 0
    assert verdict.kinds["gone"] == 0  # the first look is still there: none was sent after what it uses had gone


@pytest.mark.fire
@pytest.mark.parametrize(("fault", "kind"), [("cached", "gone"), ("unnamed", "scores")])
def test_other_faults_are_found_and_called_by_their_names(fire_topology: Topology, fault: str, kind: str) -> None:
    fire_topology.restart_replicas((*REPLICA, fault))

    assert race(fire_topology, SHORT, SHORT_SECONDS).kinds[kind] > 0


@pytest.mark.fire
def test_ten_thousand_overlaps_are_linearizable(fire_topology: Topology) -> None:
    fire_topology.restart_replicas(REPLICA)

    verdict = race(fire_topology, FULL, FULL_SECONDS, seed=1)

    assert verdict.violations == ()
    assert verdict.overlaps.raced >= FULL
