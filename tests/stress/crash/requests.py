"""HTTP calls of a crash run: every response or connection error is recorded, and none is raised."""

import time
from typing import Any

import httpx

from tests.stress.crash.journal import Call, Journal, What

ANSWER_SECONDS = 120.0  # no response takes longer, whatever was killed


class Caller:
    """One user's calls. Each has its own connection, so that none is older than the last kill."""

    def __init__(self, addresses: dict[str, str], token: str, journal: Journal) -> None:
        self.journal = journal
        self._addresses = addresses
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_SECONDS,
            limits=httpx.Limits(max_keepalive_connections=0),
            verify=False,
            trust_env=False,
        )

    def call(self, what: What, method: str, path: str, *, target: str = "proxy", picture: int = 0, **body: Any) -> Call:
        """Send a request and record the result. Any: httpx's options for the body."""
        sent = time.monotonic()
        try:
            answer = self._http.request(method, self._addresses[target] + path, **body)
        except httpx.TransportError as error:
            call = Call(what, path, target, sent, time.monotonic(), 0, error=repr(error), picture=picture)
        else:
            media = answer.headers.get("Content-Type", "")
            now = time.monotonic()
            call = Call(what, path, target, sent, now, answer.status_code, media, answer.content, picture=picture)
        self.journal.add(call)
        return call

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
