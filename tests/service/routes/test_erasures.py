"""Erasures over HTTP: serving stops with the response, the other steps follow, and the receipt verifies."""

from typing import Any
from uuid import UUID

import pytest

from service.background.maintenance import ServiceMaintenance
from tests.servers.processes import wait_until
from tests.service.conftest import MakeDeployment
from tests.service.deployment import Deployment, prompt_bytes


def sources_used(deployment: Deployment) -> list[str]:
    return list(deployment.predict().json().get("sources", []))


def wait_until_complete(deployment: Deployment, who: str, path: str) -> Any:
    wait_until(lambda: deployment.request(who, "GET", path).json()["state"] == "complete")
    return deployment.request(who, "GET", path).json()


def test_a_forgotten_source_is_gone_from_predictions_memory_and_stores(make_deployment: MakeDeployment) -> None:
    deployment = make_deployment()
    source = deployment.add_source(seeds=[5])
    assert sources_used(deployment) == sorted([str(deployment.source), str(source)])
    assert deployment.metric("alacarte_cached_prompts") == 2

    answer = deployment.request("forgetter", "DELETE", f"/sources/{source}")

    assert answer.status_code == 202
    assert answer.json()["steps"][0]["name"] == "unserve"
    assert sources_used(deployment) == [str(deployment.source)]
    erasure = wait_until_complete(deployment, "forgetter", answer.headers["location"])
    assert erasure["receipt"]["source"] == str(source)
    verification = deployment.request("forgetter", "GET", f"/erasures/{erasure['id']}/verification").json()
    assert verification["holds"], verification
    assert deployment.metric("alacarte_cached_prompts") == 1
    wait_until(lambda: deployment.metric("alacarte_erasure_seconds_count") == 1)
    assert deployment.request("owner", "GET", f"/sources/{source}").status_code == 404
    prompt = prompt_bytes(5)
    stored = deployment.registry.scratch.folder.parent / "objects"
    files = [path for path in stored.rglob("*") if path.is_file()]
    assert files
    assert all(prompt != path.read_bytes() for path in files)


def test_forgetting_a_shard_leaves_the_others(deployment: Deployment) -> None:
    source = deployment.add_source()
    first, second = deployment.publish(source, 1), deployment.publish(source, 2)

    answer = deployment.request("forgetter", "DELETE", f"/sources/{source}/shards/{first}")

    assert answer.status_code == 202
    shards = deployment.request("owner", "GET", f"/sources/{source}").json()["shards"]
    assert [shard["id"] for shard in shards] == [str(second)]
    assert wait_until_complete(deployment, "forgetter", answer.headers["location"])["scope"] == "shard"


def test_forgetting_a_picture_queues_its_shard_for_training(deployment: Deployment) -> None:
    source = deployment.add_source(samples=2)
    sample = deployment.sample_of(source)

    answer = deployment.request("forgetter", "DELETE", f"/sources/{source}/samples/{sample}")

    assert answer.status_code == 202
    assert answer.json()["sample"] == sample
    (shard,) = deployment.request("owner", "GET", f"/sources/{source}").json()["shards"]
    assert (shard["generation"], shard["samples"], shard["state"]) == (2, 1, "waiting")


def test_a_repeated_request_returns_the_same_erasure(deployment: Deployment) -> None:
    source = deployment.add_source(samples=2)
    paths = [f"/sources/{source}/samples/{deployment.sample_of(source)}", f"/sources/{source}"]

    for path in paths:
        first, second = (deployment.request("forgetter", "DELETE", path) for _ in range(2))
        assert (first.status_code, second.status_code) == (202, 202)
        assert second.headers["location"] == first.headers["location"]
        done = wait_until_complete(deployment, "forgetter", first.headers["location"])
        assert deployment.request("forgetter", "DELETE", path).json() == done
        assert deployment.request("stranger", "DELETE", path).status_code == 404


def test_a_complete_erasure_is_not_scheduled_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/sources/{deployment.add_source()}"
    wait_until_complete(deployment, "owner", deployment.request("owner", "DELETE", path).headers["location"])
    scheduled: list[UUID] = []
    monkeypatch.setattr(ServiceMaintenance, "schedule_erasure", lambda _, erasure: scheduled.append(erasure))

    assert deployment.request("owner", "DELETE", path).status_code == 202
    assert scheduled == []


def test_an_erasure_is_listed_for_its_requester_only(deployment: Deployment) -> None:
    source = deployment.add_source()
    erasure = deployment.request("owner", "DELETE", f"/sources/{source}").json()["id"]

    erased = wait_until_complete(deployment, "admin", f"/erasures/{erasure}")

    assert UUID(erased["source_id"]) == source
    listed = deployment.request("owner", "GET", "/erasures", params={"limit": "1000"}).json()["items"]
    assert erasure in [one["id"] for one in listed]
    assert deployment.request("stranger", "GET", "/erasures").json()["items"] == []
