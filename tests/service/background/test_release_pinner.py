"""The prompts of a pinned release stay in the cache while others are evicted."""

from uuid import UUID

import pytest

from registry.access.caller import OPERATOR
from registry.catalog.releases import pin_release, remove_release
from service.background import release_pinner
from tests.servers.processes import wait_until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, backbone
from tests.service.engine.fixtures import slot_bytes

SLOTS = 2


def stays_cached(deployment: Deployment, source: UUID, others: list[UUID]) -> bool:
    """Return whether the source's prompts are still cached after all others were loaded."""
    for one in (source, *others):
        assert deployment.predict("owner", sources=str(one)).status_code == 200
    before = deployment.metric("alacarte_prompt_cache_misses_total")
    deployment.predict("owner", sources=str(source))
    return deployment.metric("alacarte_prompt_cache_misses_total") == before


def test_the_prompts_of_a_pinned_release_are_evicted_last_until_it_is_removed(
    make_deployment: MakeDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release_pinner, "INTERVAL_SECONDS", 0.05)
    budget_bytes = 2 * SLOTS * slot_bytes(backbone(), memory=5)
    deployment = make_deployment(
        prompt_cache_bytes=budget_bytes, pinned_releases=f"{TASK}/stable, {TASK}/another", rate_per_s=0
    )
    with deployment.registry.database.write_transaction() as session:
        release = pin_release(session, OPERATOR, deployment.task, "stable")
    others = [deployment.add_source(seeds=[seed]) for seed in range(1, SLOTS + 1)]

    wait_until(lambda: stays_cached(deployment, deployment.source, others), "the pinning")
    for _ in range(3):
        assert stays_cached(deployment, deployment.source, others)

    with deployment.registry.database.write_transaction() as session:
        remove_release(session, OPERATOR, release.id)
    wait_until(lambda: not stays_cached(deployment, deployment.source, others), "the end of the pinning")
