"""The life of a source through the proxy: two workers train it, two replicas serve it, and all forget it."""

from pathlib import Path
from uuid import UUID

import pytest

from alacarte.client import Client, ServiceProblem
from registry.storage.keys import source_prefix
from tests.cli.fixtures import draw
from tests.e2e.cluster import Cluster
from tests.e2e.expected_answers import (
    WAIT_SECONDS,
    assert_answer,
    assert_picture_is_forgotten,
    predict_directly,
    published,
)
from tests.e2e.process import read_metric
from tests.service.deployment import BACKBONE, SIZE, backbone

pytestmark = pytest.mark.e2e


def cached_prompts(production: Cluster) -> list[float]:
    """Return the number of prompts in each replica's memory."""
    return [read_metric(url, production.admin_token, "cached_prompts") for url in production.replica_urls]


def predict_everywhere(production: Cluster, token: str, picture: Path) -> set[tuple[UUID, ...]]:
    """Return the distinct sets of sources that the proxy and the replicas answer with."""
    answers = set()
    for url in (production.url, *production.replica_urls):
        with Client(url, token) as client:
            answers.add(tuple(client.predict(picture).sources))
    return answers


def test_upload_train_grant_predict_forget_through_the_proxy(production: Cluster, tmp_path: Path) -> None:
    registry, token = production.registry, production.admin_token
    farm, zoo = draw(tmp_path / "farm"), draw(tmp_path / "zoo", ("dog", "emu"), each=6)
    picture = farm / "cat" / "0.png"

    with Client(production.url, token) as admin:
        admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe={"epochs": 1, "augment": "none"})
        first = admin.upload_source("farm", farm, task="animals", shards=4).source_id
        second = admin.upload_source("zoo", zoo, task="animals", shards=2).source_id
        admin.create_user("eva")
        eva_token = admin.create_token("eva").text
        for source in ("farm", "zoo"):
            admin.wait_until_trained(source, WAIT_SECONDS)
            admin.create_grant("eva", source)
        assert all("published" in worker.output for worker in production.workers)

        with Client(production.url, eva_token) as eva:
            # The proxy and each replica answer with exactly the prompts that the caller may use.
            expected = predict_directly(backbone(), published(registry, first, second), picture)
            assert_answer(eva.predict(picture, top_k=3), expected)
            assert predict_everywhere(production, eva_token, picture) == {tuple(sorted((first, second)))}
            narrowed = eva.predict(picture, sources=["zoo"])
            assert narrowed.set_digest == predict_directly(backbone(), published(registry, second), picture).set_digest
            admin.revoke_grant("eva", "farm")
            assert predict_everywhere(production, eva_token, picture) == {(second,)}
            with pytest.raises(ServiceProblem, match="404"):
                eva.predict(picture, sources=[first])
            admin.create_grant("eva", "farm")
            assert predict_everywhere(production, eva_token, picture) == {tuple(sorted((first, second)))}
            assert cached_prompts(production) == [6, 6]

            assert_picture_is_forgotten(registry, backbone(), admin, eva, farm, first, second)

            # Forget a source: no answer uses it from now on, it is erased everywhere, and the receipt is valid.
            predict_everywhere(production, eva_token, picture)
            forgotten = admin.forget_source("farm")
            assert predict_everywhere(production, eva_token, picture) == {(second,)}
            erasure = admin.wait_for_erasure(forgotten.id, WAIT_SECONDS)
            assert erasure.receipt is not None
            assert admin.verify_receipt(erasure.id).holds
            assert cached_prompts(production) == [2, 2]
            answer = eva.predict(picture)
            assert answer.set_digest == predict_directly(backbone(), published(registry, second), picture).set_digest

    assert published(registry, first) == {}
    assert list(registry.objects.list_all(source_prefix(first))) == []
    assert [part.terminate() for part in (*production.replicas, *production.workers)] == [0, 0, 0, 0]
