"""Work is cancelled when its client disconnects, and finished otherwise."""

import asyncio
from typing import Any

import pytest
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.http.request_context import cancel_on_disconnect

pytestmark = pytest.mark.anyio


class FakeClient:
    """A client that disconnects when the test says so."""

    def __init__(self) -> None:
        self.has_left = asyncio.Event()

    async def receive(self) -> Message:
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    def request(self) -> Request:
        return Request({"type": "http", "headers": []}, self.receive)


async def test_work_is_cancelled_when_its_client_disconnects() -> None:
    client, events = FakeClient(), []

    async def work() -> None:
        try:
            client.has_left.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    with pytest.raises(ClientDisconnect):
        await cancel_on_disconnect(client.request(), work())
    assert events == ["cancelled"]


async def test_work_is_finished_while_its_client_stays() -> None:
    async def work(outcome: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    assert await cancel_on_disconnect(FakeClient().request(), work(3)) == 3
    with pytest.raises(KeyError):
        await cancel_on_disconnect(FakeClient().request(), work(KeyError("x")))
