"""A database that hangs: nobody is kept beyond the time that an answer may take, and afterwards all is well."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.access import usable_prompts
from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from service.middleware import authentication
from service.prediction import predict as prediction
from service.prediction import rights_recheck
from service.settings import ServiceSettings
from tests.servers.postgres import PostgresServer
from tests.service.deployment import TASK, Deployment, picture
from tests.service.processes import serve
from tests.service.waiting import wait_for

DATABASE_TIMEOUT_S = 0.5
CLIENT_SECONDS = 30.0  # much longer than any limit here: who waits so long was kept for ever


@pytest.fixture
def deployment(
    migrated_postgres_url: str, postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """A deployment on PostgreSQL, which has answered once; its server is thawed at the end."""
    for module in (authentication, prediction, rights_recheck):
        monkeypatch.setattr(module, "DATABASE_TIMEOUT_S", DATABASE_TIMEOUT_S)
    told = ServiceSettings(
        home=tmp_path, database=migrated_postgres_url, objects="", weights="random", deadline_s=5.0, threads=2
    )
    objects = FolderStore(tmp_path / "objects")
    objects.prepare()
    database = Database(migrated_postgres_url)
    mark_store(database, objects)
    deployment = Deployment(
        Registry(database, objects, ScratchSpace(told.scratch_folder), open_signer(told.signing_key_file))
    )
    try:
        with serve(told) as deployment.url:
            assert predict(deployment) == 200
            yield deployment
            postgres_server.thaw()
    finally:
        postgres_server.thaw()
        deployment.client.close()
        database.close()


def predict(deployment: Deployment) -> int:
    asked = {"files": {"image": picture()}, "data": {"task": TASK}, "timeout": CLIENT_SECONDS}
    return deployment.request("user", "POST", "/predict", **asked).status_code


def test_every_request_is_answered_while_the_database_hangs_and_after_it(
    deployment: Deployment, postgres_server: PostgresServer
) -> None:
    postgres_server.freeze()

    # More of them than the door has threads: those that hang there keep nobody else.
    answers = [deployment.request("user", "GET", "/tasks", timeout=CLIENT_SECONDS) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503] * 4
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert predict(deployment) == 503

    postgres_server.thaw()
    wait_for(lambda: predict(deployment) == 200)


def test_a_database_that_hangs_under_a_prediction_ends_it(
    deployment: Deployment, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usable(*given: object, **named: object) -> object:
        postgres_server.freeze()
        return usable_prompts.read_usable_prompts(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", usable)

    assert predict(deployment) == 503

    postgres_server.thaw()
    monkeypatch.setattr(rights_recheck, "read_usable_prompts", usable_prompts.read_usable_prompts)
    wait_for(lambda: predict(deployment) == 200)
