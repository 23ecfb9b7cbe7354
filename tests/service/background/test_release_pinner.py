"""The prompts of a pinned release stay in the cache while others are evicted."""

import re
from uuid import UUID

import pytest

from registry.access.caller import OPERATOR
from registry.catalog.releases import pin_release, remove_release
from service.background import release_pinner
from service.settings import read_service_settings
from tests.servers.processes import wait_until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import TASK, Deployment, backbone, picture
from tests.service.engine.fixtures import slot_bytes

SLOTS = 2


def predict(deployment: Deployment, source: UUID) -> None:
    answer = deployment.request("owner", "POST", "/predict", files={"image": picture()}, data={"sources": str(source)})
    assert answer.status_code == 200, answer.text


def misses(deployment: Deployment) -> int:
    match = re.search(
        r"^alacarte_prompt_cache_misses_total (\S+)", deployment.request("admin", "GET", "/metrics").text, re.M
    )
    assert match is not None
    return int(float(match[1]))


def stays_cached(deployment: Deployment, source: UUID, others: list[UUID]) -> bool:
    """Return whether the source's prompts are still cached after all others were loaded."""
    for one in (source, *others):
        predict(deployment, one)
    before = misses(deployment)
    predict(deployment, source)
    return misses(deployment) == before


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
    others = [deployment.add_source() for _ in range(SLOTS)]
    for seed, source in enumerate(others, start=1):
        deployment.publish(source, seed)

    wait_until(lambda: stays_cached(deployment, deployment.source, others), "the pinning")
    for _ in range(3):
        assert stays_cached(deployment, deployment.source, others)

    with deployment.registry.database.write_transaction() as session:
        remove_release(session, OPERATOR, release.id)
    wait_until(lambda: not stays_cached(deployment, deployment.source, others), "the end of the pinning")


@pytest.mark.parametrize("pinned", ["stable", "animals/", "/stable", "animals/stable,birds"])
def test_a_pinned_release_needs_its_task_and_its_name(pinned: str) -> None:
    with pytest.raises(Exception, match="TASK/RELEASE"):
        read_service_settings(pinned_releases=pinned)


def test_several_releases_can_be_pinned() -> None:
    settings = read_service_settings(pinned_releases="animals/stable, birds/v1/2 ,")

    assert settings.pinned_release_names == (("animals", "stable"), ("birds", "v1/2"))
