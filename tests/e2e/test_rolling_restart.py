"""A rolling restart under load: replicas restart one after the other, and no request fails."""

from contextlib import ExitStack
from functools import partial

import httpx
import pytest

from alacarte.client import Client
from tests.e2e.call_log import CallLog, record_outcomes
from tests.e2e.cluster import Cluster
from tests.service.deployment import BACKBONE, SIZE, picture, prompt_bytes

CLIENTS = 4


@pytest.fixture
def workers() -> int:
    """No worker: nothing is trained here."""
    return 0


def predict(client: httpx.Client) -> str:
    return outcome(client.post("/predict", files={"image": picture()}))


def list_sources(client: httpx.Client) -> str:
    return outcome(client.get("/sources"))


def outcome(answer: httpx.Response) -> str:
    return "ok" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"


@pytest.mark.e2e
def test_replicas_restart_one_after_the_other_and_no_request_fails(production: Cluster) -> None:
    headers = {"Authorization": f"Bearer {production.admin_token}"}
    with Client(production.url, production.admin_token) as admin:
        admin.create_task("animals", backbone=BACKBONE, size=SIZE)
        source = admin.create_source("farm", task="animals").id
    sent = headers | {"Content-Type": "application/octet-stream"}
    put = httpx.put(f"{production.url}/sources/{source}/prompt", content=prompt_bytes(), headers=sent, timeout=60)
    assert put.status_code == 200
    logs: list[CallLog[str]] = []

    def await_more_answers() -> None:
        for log in logs:
            log.await_calls(2)

    with ExitStack() as stack:
        for send in [predict] * CLIENTS + [list_sources]:
            log: CallLog[str] = CallLog()
            client = httpx.Client(base_url=production.url, headers=headers, timeout=60)
            stack.enter_context(log.running(partial(record_outcomes, log, client, send)))
            logs.append(log)
        await_more_answers()
        for replica in production.replicas:
            assert replica.terminate() == 0  # under load
            await_more_answers()
            replica.start()
            await_more_answers()

    assert {call for log in logs for call in log.calls} == {"ok"}
