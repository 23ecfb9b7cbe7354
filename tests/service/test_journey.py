"""The whole way over HTTP, on both homes of rows and objects: upload, train, grant, predict, forget."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.registry import Registry
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard
from service.settings import ServiceSettings
from tests.service.deployment import BACKBONE, LABELS, SIZE, archive, backbone, picture, prompt_bytes
from tests.service.processes import serve
from tests.service.waiting import wait_for


@pytest.fixture
def client(
    registry: Registry, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx.Client]:
    """An admin's connection to a service that has nothing in it."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)
    with registry.database.write_transaction() as session:
        admin = create_user(session, OPERATOR, "admin", "admin")
        token = issue_token(session, OPERATOR, admin.id).text
    with serve(ServiceSettings(weights="random")) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def train_all(registry: Registry) -> None:
    """Does what a worker does, but for the training."""
    facts = PublishedMetadata(identity=backbone().identity, labels=LABELS, samples=1, facts={})
    for number in count():
        with lease_shard(registry, "ann") as work:
            if work is None:
                return
            publish(registry, work[0], prompt_bytes(number), facts)


def is_complete(client: httpx.Client, erasure: str, headers: dict[str, str]) -> bool:
    return bool(client.get(erasure, headers=headers).json()["state"] == "complete")


def told(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def test_a_source_comes_is_trained_granted_asked_and_forgotten(client: httpx.Client, registry: Registry) -> None:
    # An admin makes a task and two users.
    task = told(client.post("/tasks", json={"name": "animals", "backbone": BACKBONE, "size": SIZE}), 201)
    owner, asker = (
        told(client.post("/users", json={"name": name, "role": role}), 201)
        for name, role in (("clinic", "owner"), ("phone", "predictor"))
    )
    tokens = {
        user["name"]: told(client.post("/tokens", json={"user": user["id"]}), 201)["text"] for user in (owner, asker)
    }
    as_owner, as_asker = ({"Authorization": f"Bearer {tokens[name]}"} for name in ("clinic", "phone"))

    # The owner uploads, and a worker trains.
    said = {"task": "animals", "name": "ward 1", "shards": "2"}
    headers = {**as_owner, "Content-Type": "application/zip"}
    pictures = archive(
        # So many that a random key leaves neither shard without any.
        {f"{label}/{n}.png": picture(100 * place + n) for place, label in enumerate(LABELS, 1) for n in range(10)}
    )
    told(client.post("/sources", params=said | {"name": "\0"}, content=pictures, headers=headers), 422)
    source = told(client.post("/sources", params=said, content=pictures, headers=headers), 202)["source_id"]
    train_all(registry)
    state = told(client.get(f"/sources/{source}", headers=as_owner), 200)
    assert state["progress"] == 1.0
    assert {shard["state"] for shard in state["shards"]} == {"trained"}

    # Without a grant there is no answer; with one there is.
    ask = {"files": {"image": picture(5)}, "headers": as_asker}
    told(client.post("/predict", **ask), 409)  # type: ignore[arg-type]
    told(client.post("/grants", json={"user": asker["id"], "source": source}, headers=as_owner), 201)
    answer = told(client.post("/predict", **ask), 200)  # type: ignore[arg-type]
    assert (answer["task"], answer["sources"]) == (task["id"], [source])

    # One picture is forgotten: its shard leaves at once, and comes back when it is trained again.
    sample = told(client.get(f"/sources/{source}/samples", headers=as_owner), 200)["items"][0]
    erasure = told(client.delete(f"/sources/{source}/samples/{sample['digest']}", headers=as_owner), 202)
    without = told(client.post("/predict", **ask), 200)  # type: ignore[arg-type]
    assert without["set_digest"] != answer["set_digest"]
    train_all(registry)
    assert told(client.get(f"/sources/{source}", headers=as_owner), 200)["progress"] == 1.0

    # The source is forgotten: no answer any more, and in the end a receipt that holds.
    last = told(client.delete(f"/sources/{source}", headers=as_owner), 202)
    told(client.post("/predict", **ask), 409)  # type: ignore[arg-type]
    told(client.get(f"/sources/{source}", headers=as_owner), 404)
    for begun in (erasure, last):
        wait_for(partial(is_complete, client, f"/erasures/{begun['id']}", as_owner))
    assert told(client.get(f"/erasures/{last['id']}/verification", headers=as_owner), 200)["holds"]
    assert list(registry.objects.list_all(f"sources/{source}/")) == []
