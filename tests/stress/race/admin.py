"""An admin thread of the race: creates, grants, revokes, re-grants and deletes sources."""

import random
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import httpx

from tests.stress.race.fixtures import SLOTS, USERS, VARIANTS, RaceSetup, prompt_bytes
from tests.stress.race.history import Operation, Write
from tests.stress.race.recorder import Recorder

PACE = 2  # answered predictions between two writes; without it, sets change faster than a prediction takes


class Admin:
    """Sends each request to a random address, and never two writes to one source at the same time."""

    def __init__(self, addresses: Sequence[str], token: str, setup: RaceSetup, recorder: Recorder, seed: int) -> None:
        self._addresses = addresses
        self._client = httpx.Client(timeout=60, headers={"Authorization": f"Bearer {token}"})
        self._setup = setup
        self._recorder = recorder
        self._random = random.Random(f"admin {seed}")

    def run(self, slots: Sequence[int]) -> None:
        """Create and delete sources in these slots until the race is over."""
        live: dict[int, str] = {}
        lives = dict.fromkeys(slots, 0)
        with closing(self):
            while not self._recorder.is_over:
                slot = self._random.choice(slots)
                if slot not in live:
                    prompt = slot + SLOTS * (lives[slot] % VARIANTS)
                    live[slot] = self.create_source(prompt, f"slot {slot} life {lives[slot]} {time.monotonic_ns()}")
                    lives[slot] += 1
                elif self._random.random() < 0.5:
                    self._write("delete", live.pop(slot))
                else:
                    user = self._random.choice(USERS)
                    self._write("revoke", live[slot], user)
                    self._recorder.await_calls(PACE)
                    self._write("grant", live[slot], user)
                self._recorder.await_calls(PACE)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_source(self, prompt: int, name: str) -> str:
        """Create a source with this prompt, grant it to all users and return its id."""
        source = str(
            self._request("POST", "/sources", json={"name": name, "task": self._setup.task}).json()["source_id"]
        )
        self._write("publish", source, prompt=prompt)
        for user in USERS:
            self._write("grant", source, user)
        return source

    def _write(self, operation: Operation, source: str, user: str = "", prompt: int = 0) -> None:
        grant = {"user": self._setup.users.get(user, ""), "source": source, "right": "use"}
        sent = time.monotonic()
        match operation:
            case "publish":
                headers = {"Content-Type": "application/octet-stream"}
                self._request("PUT", f"/sources/{source}/prompt", content=prompt_bytes(prompt), headers=headers)
            case "grant":
                self._request("POST", "/grants", json=grant)
            case "revoke":
                self._request("DELETE", "/grants", params=grant)
            case "delete":
                self._request("DELETE", f"/sources/{source}")
        self._recorder.add_write(Write(operation, source, sent, time.monotonic(), user, prompt))

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:  # Any: httpx's
        answer = self._client.request(method, self._random.choice(self._addresses) + path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer
