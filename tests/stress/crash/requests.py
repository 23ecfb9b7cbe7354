"""Calls of the people in a crash run: whatever comes back is written down, and nothing is raised."""

import time
from typing import Any

import httpx

from tests.stress.crash.journal import Call, Journal, What

ANSWER_SECONDS = 120.0  # nobody is kept longer, whatever was killed


class Caller:
    """One person's calls to the service, each over a connection of its own: none is older than what was killed."""

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

    def call(self, what: What, method: str, path: str, *, place: str = "proxy", picture: int = 0, **body: Any) -> Call:
        """What came back. Any: the body in one of the ways of httpx."""
        sent = time.monotonic()
        try:
            answer = self._http.request(method, self._addresses[place] + path, **body)
        except httpx.TransportError as error:
            found = Call(what, path, place, sent, time.monotonic(), 0, fault=repr(error), picture=picture)
        else:
            media = answer.headers.get("Content-Type", "")
            now = time.monotonic()
            found = Call(what, path, place, sent, now, answer.status_code, media, answer.content, picture=picture)
        self.journal.add(found)
        return found

    def close(self) -> None:
        """Ends its connections."""
        self._http.close()
