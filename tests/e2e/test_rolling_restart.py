"""A new version comes while people ask: each replica ends in order and starts again, and nobody is told an error."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest

from alacarte.client import Client
from tests.e2e.cluster import Cluster
from tests.servers.processes import until
from tests.service.deployment import BACKBONE, SIZE, picture, prompt_bytes

ASKERS = 4


@pytest.fixture
def workers() -> int:
    """Nothing is trained here."""
    return 0


class Asker(threading.Thread):
    """Asks again and again, and keeps what it was told."""

    def __init__(self, ask: Callable[[httpx.Client], httpx.Response], url: str, token: str) -> None:
        super().__init__()
        self._ask = ask
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        self._has_enough = threading.Event()
        self.told: Counter[str] = Counter()

    def run(self) -> None:
        with closing(self._client):
            while not self._has_enough.is_set():
                try:
                    answer = self._ask(self._client)
                    self.told["well" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"] += 1
                except httpx.TransportError as error:
                    self.told[repr(error)] += 1

    def finish(self) -> None:
        self._has_enough.set()
        self.join()


def predict(client: httpx.Client) -> httpx.Response:
    return client.post("/predict", files={"image": picture()})


def look(client: httpx.Client) -> httpx.Response:
    return client.get("/sources")


@pytest.mark.e2e
def test_replicas_restart_one_after_the_other_and_no_request_fails(production: Cluster) -> None:
    token = production.admin_token
    with Client(production.url, token) as admin, httpx.Client(base_url=production.url) as plain:
        plain.headers["Authorization"] = f"Bearer {token}"
        admin.create_task("animals", backbone=BACKBONE, size=SIZE)
        source = admin.create_source("farm", task="animals").id
        sent = {"content": prompt_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
        assert plain.put(f"/sources/{source}/prompt", timeout=60, **sent).status_code == 200  # type: ignore[arg-type]
    predict_clients = [Asker(predict, production.url, token) for _ in range(ASKERS)] + [
        Asker(look, production.url, token)
    ]
    for asker in predict_clients:
        asker.start()

    def await_more_answers() -> None:
        wanted = [asker.told.total() + 2 for asker in predict_clients]
        until(
            lambda: all(asker.told.total() >= more for asker, more in zip(predict_clients, wanted, strict=True)),
            "answers",
            wait_s=120,
        )

    try:
        await_more_answers()
        for replica in production.replicas:
            assert replica.terminate() == 0  # while it is asked
            await_more_answers()
            replica.start()
            await_more_answers()
    finally:
        for asker in predict_clients:
            asker.finish()

    assert sum((asker.told for asker in predict_clients), Counter()).keys() == {"well"}
