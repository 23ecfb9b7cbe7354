"""A rolling restart under load: replicas restart one after the other, and no request fails."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest

from alacarte.client import Client
from tests.e2e.cluster import Cluster
from tests.servers.processes import wait_until
from tests.service.deployment import BACKBONE, SIZE, picture, prompt_bytes

CLIENTS = 4


@pytest.fixture
def workers() -> int:
    """No worker: nothing is trained here."""
    return 0


class ClientThread(threading.Thread):
    """Sends requests without pause and counts the outcomes."""

    def __init__(self, send: Callable[[httpx.Client], httpx.Response], url: str, token: str) -> None:
        super().__init__()
        self._send = send
        self._client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        self._has_enough = threading.Event()
        self.outcomes: Counter[str] = Counter()

    def run(self) -> None:
        with closing(self._client):
            while not self._has_enough.is_set():
                try:
                    answer = self._send(self._client)
                    self.outcomes["ok" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"] += 1
                except httpx.TransportError as error:
                    self.outcomes[repr(error)] += 1

    def finish(self) -> None:
        self._has_enough.set()
        self.join()


def predict(client: httpx.Client) -> httpx.Response:
    return client.post("/predict", files={"image": picture()})


def list_sources(client: httpx.Client) -> httpx.Response:
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
    threads = [ClientThread(predict, production.url, token) for _ in range(CLIENTS)] + [
        ClientThread(list_sources, production.url, token)
    ]
    for thread in threads:
        thread.start()

    def await_more_answers() -> None:
        targets = [thread.outcomes.total() + 2 for thread in threads]
        wait_until(
            lambda: all(thread.outcomes.total() >= target for thread, target in zip(threads, targets, strict=True)),
            "answers",
            wait_s=120,
        )

    try:
        await_more_answers()
        for replica in production.replicas:
            assert replica.terminate() == 0  # under load
            await_more_answers()
            replica.start()
            await_more_answers()
    finally:
        for thread in threads:
            thread.finish()

    assert sum((thread.outcomes for thread in threads), Counter()).keys() == {"ok"}
