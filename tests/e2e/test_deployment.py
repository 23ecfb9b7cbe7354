"""The whole journey through the proxy: two workers train, two replicas answer, and both forget."""

import re
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from alacarte.client import Client, ServiceProblem
from alacarte.prompting.backbone.build import build_backbone
from alacarte.prompting.prompt.artifact import prompt_digest
from registry.storage.keys import source_prefix
from tests.cli.fixtures import draw
from tests.e2e.browser import directly, never_seen, prompts_in, published
from tests.e2e.cluster import Cluster
from tests.service.deployment import BACKBONE, SIZE
from trainer.threads import one_thread

pytestmark = pytest.mark.e2e

PATIENCE_SECONDS = 240


def resident(url: str, token: str) -> int:
    """How many prompts a replica has in memory."""
    told = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}).text
    found = re.search(r"^alacarte_cached_prompts (\S+)$", told, re.MULTILINE)
    assert found is not None, told
    return int(float(found[1]))


def ask_everywhere(production: Cluster, token: str, picture: Path) -> set[tuple[str, ...]]:
    """The sources that each replica answers by: one and the same set, if all is well."""
    found = set()
    for url in (production.url, *production.replica_urls):
        with Client(url, token) as client:
            found.add(client.predict(picture).sources)
    return found


def test_upload_train_grant_predict_forget_through_the_proxy(production: Cluster, tmp_path: Path) -> None:
    registry, token = production.registry, production.admin_token
    backbone = build_backbone(BACKBONE, "random", SIZE, log=lambda _: None)
    farm, zoo = draw(tmp_path / "farm"), draw(tmp_path / "zoo", ("dog", "emu"), each=6)
    picture = farm / "cat" / "0.png"

    with Client(production.url, token) as admin:
        admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe={"epochs": 1, "augment": "none"})
        first = admin.upload("farm", farm, task="animals", shards=4).source
        second = admin.upload("zoo", zoo, task="animals", shards=2).source
        admin.create_user("eva")
        eva_token = admin.issue_token("eva").text
        for source in ("farm", "zoo"):
            admin.wait_until_trained(source, PATIENCE_SECONDS)
            admin.grant("eva", source)
        assert all("published" in worker.said for worker in production.workers)

        with Client(production.url, eva_token) as eva:
            # Through the proxy and at each replica: what the trainers' prompts say, by all, by some, by none.
            answer = eva.predict(picture, top_k=3)
            expected = directly(backbone, published(registry, first, second), picture)
            assert answer.set_digest == expected.set_digest
            assert [one.label for one in answer.labels] == list(expected.labels)
            assert [one.score for one in answer.labels] == pytest.approx(expected.scores.tolist(), abs=1e-4)
            assert ask_everywhere(production, eva_token, picture) == {tuple(sorted((first, second)))}
            narrowed = eva.predict(picture, sources=["zoo"])
            assert narrowed.set_digest == directly(backbone, published(registry, second), picture).set_digest
            admin.revoke("eva", "farm")
            assert ask_everywhere(production, eva_token, picture) == {(second,)}
            with pytest.raises(ServiceProblem, match="404"):
                eva.predict(picture, sources=[first])
            admin.grant("eva", "farm")
            assert ask_everywhere(production, eva_token, picture) == {tuple(sorted((first, second)))}
            assert [resident(url, token) for url in production.replica_urls] == [6, 6]

            # A forgotten picture: its prompt leaves at once, and one comes that never saw it.
            sample = admin.samples("farm")[0]
            old = published(registry, first).keys()
            forgetting = admin.forget("farm", sample=sample.digest)
            assert len(old - prompts_in(eva, picture)) == 1
            admin.wait_until_trained("farm", PATIENCE_SECONDS)
            now = published(registry, first)
            [new] = [prompt_digest(data) for prompt, data in now.items() if prompt not in old]
            with one_thread():
                assert new == never_seen(registry, backbone, sample.shard_id, farm)
            assert admin.verify(forgetting.wait(PATIENCE_SECONDS).id).holds

            # A forgotten source: gone from answers at once, from everywhere else in the end, and the receipt holds.
            ask_everywhere(production, eva_token, picture)
            forgetting = admin.forget("farm")
            assert ask_everywhere(production, eva_token, picture) == {(second,)}
            erasure = forgetting.wait(PATIENCE_SECONDS)
            assert erasure.receipt is not None
            assert admin.verify(erasure.id).holds
            assert [resident(url, token) for url in production.replica_urls] == [2, 2]
            answer = eva.predict(picture)
            assert answer.set_digest == directly(backbone, published(registry, second), picture).set_digest

    assert published(registry, first) == {}
    assert list(registry.objects.traces(source_prefix(UUID(first)))) == []
    assert [part.terminate() for part in (*production.replicas, *production.workers)] == [0, 0, 0, 0]
