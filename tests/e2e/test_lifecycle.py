"""The life of a source with a real worker process, over a real socket: upload, train, grant, predict, forget."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alacarte.client import Client, ServiceProblem
from alacarte.prompting.backbone.vit import build_backbone
from alacarte.prompting.prompt.artifact import prompt_digest
from alacarte.prompting.threads import one_thread
from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.registry import Registry
from registry.storage.keys import source_prefix
from service.settings import ServiceSettings
from tests.cli.fixtures import draw
from tests.e2e.expected_answers import digest_without_forgotten, predict_directly, prompts_in, published
from tests.registry.database_fixtures import sqlite_only
from tests.service.server_fixture import serve

BACKBONE, SIZE = "vit_tiny_patch16_224", 32
WAIT_SECONDS = 120
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(registry: Registry, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a service without data."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)
    with one_thread(), serve(ServiceSettings(weights="random")) as url:
        yield url


@contextmanager
def worker(environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run a worker process."""
    command = [sys.executable, "-m", "alacarte", "work", "--weights", "random", "--poll", "0.1"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env={**environment, "OMP_NUM_THREADS": "1"}, stderr=out)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def admin_token(registry: Registry) -> str:
    with registry.database.write_transaction() as session:
        return issue_token(session, OPERATOR, create_user(session, OPERATOR, "admin", "admin").id).text


def test_upload_train_grant_predict_forget(
    registry: Registry, environment: dict[str, str], url: str, tmp_path: Path
) -> None:
    backbone = build_backbone(BACKBONE, "random", SIZE, log=lambda _: None)
    farm, zoo = draw(tmp_path / "farm"), draw(tmp_path / "zoo", ("dog", "emu"), each=6)
    picture = farm / "cat" / "0.png"

    with Client(url, admin_token(registry)) as admin, worker(environment, tmp_path / "worker.log"):
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
            answer, prompts = eva.predict(picture, top_k=3), published(registry, first, second)
            expected = predict_directly(backbone, prompts, picture)
            assert sorted(answer.sources) == sorted([first, second])
            assert answer.set_digest == expected.set_digest
            assert [one.label for one in answer.labels] == list(expected.labels)
            assert [one.score for one in answer.labels] == pytest.approx(expected.scores.tolist(), abs=1e-4)
            with pytest.raises(ServiceProblem, match="409"):
                fay.predict(picture)
            with pytest.raises(ServiceProblem, match="404"):
                fay.predict(picture, sources=[first])

            # Forget a picture: its prompt is dropped at once, and a new one is trained without it.
            sample = admin.list_samples("farm")[0]
            old = published(registry, first).keys()
            forgotten = admin.forget_sample("farm", sample.digest)
            assert len(old - prompts_in(eva, picture)) == 1
            assert admin.get_source("farm").samples == 23
            state = admin.wait_until_trained("farm", WAIT_SECONDS)
            assert {shard.id: shard.generation for shard in state.shards}[sample.shard_id] == 2
            now = published(registry, first)
            assert len(old & now.keys()) == 1
            [new] = [prompt_digest(data) for prompt, data in now.items() if prompt not in old]
            assert new == digest_without_forgotten(registry, backbone, sample.shard_id, farm)
            assert prompts_in(eva, picture) == published(registry, first, second).keys()
            assert admin.verify_receipt(admin.wait_for_erasure(forgotten.id, WAIT_SECONDS).id).holds

            # Forget a source: answers are at once exactly those of the others.
            forgotten = admin.forget_source("farm")
            answer = eva.predict(picture)
            assert answer.sources == [second]
            assert answer.set_digest == predict_directly(backbone, published(registry, second), picture).set_digest
            erasure = admin.wait_for_erasure(forgotten.id, WAIT_SECONDS)
            assert erasure.receipt is not None
            assert admin.verify_receipt(erasure.id).holds
            assert published(registry, first) == {}

    assert list(registry.objects.list_all(source_prefix(first))) == []
    assert {file.name for file in registry.scratch.folder.iterdir()} <= {"scratch-id"}


@sqlite_only
def test_a_source_with_one_label_is_trained_and_composed_with_others(
    registry: Registry, environment: dict[str, str], url: str, tmp_path: Path
) -> None:
    backbone = build_backbone(BACKBONE, "random", SIZE, log=lambda _: None)
    herd, farm = draw(tmp_path / "herd", ("cat",), each=3), draw(tmp_path / "farm", ("cat", "dog"), each=3)
    picture = farm / "dog" / "0.png"

    with Client(url, admin_token(registry)) as admin, worker(environment, tmp_path / "worker.log"):
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
            both, expected = (
                eva.predict(picture),
                predict_directly(backbone, published(registry, first, second), picture),
            )
            assert both.set_digest == expected.set_digest
            assert {one.label: one.score for one in both.labels} == pytest.approx(
                dict(zip(expected.labels, expected.scores.tolist(), strict=True)), abs=1e-4
            )
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
