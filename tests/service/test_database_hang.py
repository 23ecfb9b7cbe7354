"""While the database hangs, every request gets a timely 503; afterwards the service works again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.access import usable_prompts
from service.middleware import authentication
from service.prediction import predict as prediction
from service.prediction import rights_recheck
from service.settings import ServiceSettings
from tests.servers.postgres import PostgresServer
from tests.servers.processes import wait_until
from tests.service.deployment import Deployment
from tests.service.server_fixture import run_deployment

DATABASE_TIMEOUT_S = 0.5
CLIENT_SECONDS = 30.0  # much longer than any timeout of the service


@pytest.fixture
def deployment(
    migrated_postgres_url: str, postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """A deployment on a PostgreSQL that can be frozen, with a first answer."""
    for module in (authentication, prediction, rights_recheck):
        monkeypatch.setattr(module, "DATABASE_TIMEOUT_S", DATABASE_TIMEOUT_S)
    settings = ServiceSettings(
        home=tmp_path, database=migrated_postgres_url, objects="", weights="random", deadline_s=5.0, threads=2
    )
    try:
        with run_deployment(settings) as deployment:
            deployment.client.timeout = CLIENT_SECONDS
            assert deployment.predict().status_code == 200
            yield deployment
            postgres_server.thaw()
    finally:
        postgres_server.thaw()


def test_every_request_is_answered_while_the_database_hangs_and_after_it(
    deployment: Deployment, postgres_server: PostgresServer
) -> None:
    postgres_server.freeze()

    # More requests than threads: hanging threads do not delay others beyond their timeout.
    answers = [deployment.request("user", "GET", "/tasks") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503] * 4
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert deployment.predict().status_code == 503

    postgres_server.thaw()
    wait_until(lambda: deployment.predict().status_code == 200)


def test_a_database_that_hangs_under_a_prediction_ends_it(
    deployment: Deployment, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze_and_read(*given: object, **named: object) -> object:
        postgres_server.freeze()
        return usable_prompts.read_usable_prompts(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(rights_recheck, "read_usable_prompts", freeze_and_read)

    assert deployment.predict().status_code == 503

    postgres_server.thaw()
    monkeypatch.setattr(rights_recheck, "read_usable_prompts", usable_prompts.read_usable_prompts)
    wait_until(lambda: deployment.predict().status_code == 200)
