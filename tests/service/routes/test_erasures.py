"""Forgetting over HTTP: serving stops with the answer, the rest follows, and the receipt can be checked."""

from base64 import b64encode
from typing import Any
from uuid import UUID

import pytest

from service.background.maintenance import ServiceMaintenance
from tests.service.conftest import MakeWorld
from tests.service.deployment import TASK, World, picture, prompt_bytes
from tests.service.waiting import wait_for


def sources_used(world: World) -> list[str]:
    asked = {"images": [b64encode(picture()).decode()], "task": TASK}
    answer = world.ask("user", "POST", "/predict", json=asked)
    return list(answer.json().get("sources", []))


def measured(world: World, name: str) -> float:
    lines = world.ask("admin", "GET", "/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def complete(world: World, who: str, path: str) -> Any:
    found: dict[str, Any] = {}

    def is_complete() -> bool:
        found.update(world.ask(who, "GET", path).json())
        return bool(found["state"] == "complete")

    wait_for(is_complete)
    return found


def test_a_forgotten_source_is_gone_from_answers_memory_and_stores(make_world: MakeWorld) -> None:
    world = make_world()
    source = world.add_source()
    world.publish(source, 5)
    assert sources_used(world) == sorted([str(world.source), str(source)])
    assert measured(world, "alacarte_cached_prompts") == 2

    answer = world.ask("forgetter", "DELETE", f"/sources/{source}")

    assert answer.status_code == 202
    assert answer.json()["steps"][0]["name"] == "serving"
    assert sources_used(world) == [str(world.source)]
    erasure = complete(world, "forgetter", answer.headers["location"])
    assert erasure["receipt"]["source"] == str(source)
    verdict = world.ask("forgetter", "GET", f"/erasures/{erasure['id']}/verification").json()
    assert verdict["holds"], verdict
    assert measured(world, "alacarte_cached_prompts") == 1
    wait_for(lambda: measured(world, "alacarte_erasure_seconds_count") == 1)
    assert world.ask("owner", "GET", f"/sources/{source}").status_code == 404
    body = prompt_bytes(5)
    stored = world.registry.scratch.folder.parent / "objects"
    files = [path for path in stored.rglob("*") if path.is_file()]
    assert files
    assert all(body != path.read_bytes() for path in files)


def test_a_forgotten_shard_leaves_and_the_others_stay(world: World) -> None:
    source = world.add_source()
    first, second = world.publish(source, 1), world.publish(source, 2)

    answer = world.ask("forgetter", "DELETE", f"/sources/{source}/shards/{first}")

    assert answer.status_code == 202
    shards = world.ask("owner", "GET", f"/sources/{source}").json()["shards"]
    assert [shard["id"] for shard in shards] == [str(second)]
    assert complete(world, "forgetter", answer.headers["location"])["scope"] == "shard"


def test_a_forgotten_picture_makes_its_shard_work_again(world: World) -> None:
    source = world.add_source(samples=2)
    sample = world.sample_of(source)

    answer = world.ask("forgetter", "DELETE", f"/sources/{source}/samples/{sample}")

    assert answer.status_code == 202
    assert answer.json()["sample"] == sample
    (shard,) = world.ask("owner", "GET", f"/sources/{source}").json()["shards"]
    assert (shard["generation"], shard["samples"], shard["state"]) == (2, 1, "waiting")


def test_whoever_did_not_hear_the_answer_asks_again_and_is_told_of_the_same_erasure(world: World) -> None:
    source = world.add_source(samples=2)
    paths = [f"/sources/{source}/samples/{world.sample_of(source)}", f"/sources/{source}"]

    for path in paths:
        first, second = (world.ask("forgetter", "DELETE", path) for _ in range(2))
        assert (first.status_code, second.status_code) == (202, 202)
        assert second.headers["location"] == first.headers["location"]
        done = complete(world, "forgetter", first.headers["location"])
        assert world.ask("forgetter", "DELETE", path).json() == done
        assert world.ask("stranger", "DELETE", path).status_code == 404


def test_a_complete_erasure_that_is_asked_for_again_is_not_measured_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/sources/{world.add_source()}"
    complete(world, "owner", world.ask("owner", "DELETE", path).headers["location"])
    hurried: list[UUID] = []
    monkeypatch.setattr(ServiceMaintenance, "schedule_erasure", lambda _, erasure: hurried.append(erasure))

    assert world.ask("owner", "DELETE", path).status_code == 202
    assert hurried == []


def test_a_receipt_is_not_there_before_its_time(world: World) -> None:
    source = world.add_source()
    erasure = world.ask("owner", "DELETE", f"/sources/{source}").json()["id"]

    found = complete(world, "admin", f"/erasures/{erasure}")

    assert UUID(found["source_id"]) == source
    listed = world.ask("owner", "GET", "/erasures", params={"limit": "1000"}).json()["items"]
    assert erasure in [one["id"] for one in listed]
    assert world.ask("stranger", "GET", "/erasures").json()["items"] == []
