"""The life of a source with a real worker process, over a real socket: upload, train, grant, predict, forget."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alacarte.client import Client, ServiceProblem
from alacarte.prompting.threads import one_thread
from registry.registry import Registry
from registry.storage.keys import source_prefix
from service.settings import ServiceSettings
from tests.cli.fixtures import draw
from tests.e2e.cluster import WORK, make_admin
from tests.e2e.expected_answers import (
    WAIT_SECONDS,
    assert_answer,
    assert_picture_is_forgotten,
    predict_directly,
    published,
)
from tests.e2e.process import ROOT, ManagedProcess, has_logged
from tests.registry.database_fixtures import sqlite_only
from tests.service.deployment import BACKBONE, SIZE, backbone
from tests.service.server_fixture import serve


@pytest.fixture
def url(registry: Registry, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)
    with one_thread(), serve(ServiceSettings(weights="random")) as url:
        yield url


@pytest.fixture
def worker(environment: dict[str, str], registry: Registry, tmp_path: Path) -> Iterator[ManagedProcess]:
    python = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    part = ManagedProcess("worker", WORK, tmp_path, environment | python, has_logged("worker started"))
    part.begin()
    yield part
    part.kill()


def test_upload_train_grant_predict_forget(
    registry: Registry, worker: ManagedProcess, url: str, tmp_path: Path
) -> None:
    farm, zoo = draw(tmp_path / "farm"), draw(tmp_path / "zoo", ("dog", "emu"), each=6)
    picture = farm / "cat" / "0.png"

    with Client(url, make_admin(registry)) as admin:
        admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe={"epochs": 1, "augment": "none"})
        first = admin.upload_source("farm", farm, task="animals", shards=2).source_id
        admin.create_user("olga", "owner")
        users = {name: admin.create_user(name).id for name in ("eva", "fay")}
        with Client(url, admin.create_token("olga").text) as olga:
            second = olga.upload_source("zoo", zoo, task="animals").source_id
            olga.create_grant(users["eva"], "zoo")
        admin.create_grant("eva", "farm")
        with Client(url, admin.create_token("eva").text) as eva, Client(url, admin.create_token("fay").text) as fay:
            admin.wait_until_trained("farm", WAIT_SECONDS)
            admin.wait_until_trained("zoo", WAIT_SECONDS)

            # The service answers with the trained prompts, and only to those who may use them.
            answer = eva.predict(picture, top_k=3)
            assert sorted(answer.sources) == sorted([first, second])
            assert_answer(answer, predict_directly(backbone(), published(registry, first, second), picture))
            with pytest.raises(ServiceProblem, match="409"):
                fay.predict(picture)
            with pytest.raises(ServiceProblem, match="404"):
                fay.predict(picture, sources=[first])

            assert admin.get_source("farm").samples == 24
            assert_picture_is_forgotten(registry, backbone(), admin, eva, farm, first, second)

            # Forget a source: answers are at once exactly those of the others.
            forgotten = admin.forget_source("farm")
            answer = eva.predict(picture)
            assert answer.sources == [second]
            assert answer.set_digest == predict_directly(backbone(), published(registry, second), picture).set_digest
            erasure = admin.wait_for_erasure(forgotten.id, WAIT_SECONDS)
            assert erasure.receipt is not None
            assert admin.verify_receipt(erasure.id).holds
            assert published(registry, first) == {}

    assert worker.terminate() == 0, worker.output
    assert list(registry.objects.list_all(source_prefix(first))) == []
    assert {file.name for file in registry.scratch.folder.iterdir()} <= {"scratch-id"}


@sqlite_only
def test_a_source_with_one_label_is_trained_and_composed_with_others(
    registry: Registry, worker: ManagedProcess, url: str, tmp_path: Path
) -> None:
    herd, farm = draw(tmp_path / "herd", ("cat",), each=3), draw(tmp_path / "farm", ("cat", "dog"), each=3)
    picture = farm / "dog" / "0.png"

    with Client(url, make_admin(registry)) as admin:
        admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe={"epochs": 1, "augment": "none"})
        first = admin.upload_source("herd", herd, task="animals").source_id
        second = admin.upload_source("farm", farm, task="animals").source_id
        admin.create_user("eva")
        for source in ("herd", "farm"):
            admin.create_grant("eva", source)
            admin.wait_until_trained(source, WAIT_SECONDS)
        with Client(url, admin.create_token("eva").text) as eva:
            # Alone it always answers its label; with another source it counts as one of two.
            alone = eva.predict(picture, sources=["herd"])
            assert [(one.label, one.score) for one in alone.labels] == [("cat", 1.0)]
            both = eva.predict(picture)
            assert_answer(both, predict_directly(backbone(), published(registry, first, second), picture))
            assert both.label == "cat"

            # A shard that is left with one label is trained again too.
            for sample in admin.list_samples("farm"):
                if sample.label == "dog":
                    admin.forget_sample("farm", sample.digest)
            state = admin.wait_until_trained("farm", WAIT_SECONDS)
            assert (state.labels, state.samples) == (["cat"], 3)
            left = eva.predict(picture)
            assert sorted(left.sources) == sorted([first, second])
            assert [(one.label, one.score) for one in left.labels] == [("cat", 1.0)]

    assert worker.terminate() == 0, worker.output
