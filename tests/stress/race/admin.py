"""An admin of a race, who leads sources through their lives: made, granted, revoked, granted again, deleted."""

import random
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import httpx

from tests.stress.race.fixtures import SLOTS, USERS, VARIANTS, RaceSetup, prompt_bytes
from tests.stress.race.history import Operation, Write
from tests.stress.race.recorder import Recorder

PACE = 2  # answers between two writes: else sets change faster than anybody could answer by them


class Admin:
    """Makes each call at another address, and never two to one source at once."""

    def __init__(self, addresses: Sequence[str], token: str, setup: RaceSetup, recorder: Recorder, seed: int) -> None:
        self._addresses = addresses
        self._client = httpx.Client(timeout=60, headers={"Authorization": f"Bearer {token}"})
        self._setup = setup
        self._recorder = recorder
        self._dice = random.Random(f"admin {seed}")

    def run(self, slots: Sequence[int]) -> None:
        """One life after the other in each of the slots, until the race is over."""
        live: dict[int, str] = {}
        lives = dict.fromkeys(slots, 0)
        with closing(self):
            while not self._recorder.is_over:
                slot = self._dice.choice(slots)
                if slot not in live:
                    prompt = slot + SLOTS * (lives[slot] % VARIANTS)
                    live[slot] = self.create_source(prompt, f"slot {slot} life {lives[slot]} {time.monotonic_ns()}")
                    lives[slot] += 1
                elif self._dice.random() < 0.5:
                    self._do("delete", live.pop(slot))
                else:
                    user = self._dice.choice(USERS)
                    self._do("revoke", live[slot], user)
                    self._recorder.await_asks(PACE)
                    self._do("grant", live[slot], user)
                self._recorder.await_asks(PACE)

    def close(self) -> None:
        """Ends its connections."""
        self._client.close()

    def create_source(self, prompt: int, name: str) -> str:
        """The id of a new source with this prompt, which all users may use."""
        source = str(self._tell("POST", "/sources", json={"name": name, "task": self._setup.task}).json()["source"])
        self._do("publish", source, prompt=prompt)
        for user in USERS:
            self._do("grant", source, user)
        return source

    def _do(self, operation: Operation, source: str, user: str = "", prompt: int = 0) -> None:
        said = {"user": self._setup.users.get(user, ""), "source": source, "right": "use"}
        sent = time.monotonic()
        match operation:
            case "publish":
                headers = {"Content-Type": "application/octet-stream"}
                self._tell("PUT", f"/sources/{source}/prompt", content=prompt_bytes(prompt), headers=headers)
            case "grant":
                self._tell("POST", "/grants", json=said)
            case "revoke":
                self._tell("DELETE", "/grants", params=said)
            case "delete":
                self._tell("DELETE", f"/sources/{source}")
        self._recorder.add_write(Write(operation, source, sent, time.monotonic(), user, prompt))

    def _tell(self, method: str, path: str, **options: Any) -> httpx.Response:  # Any: httpx's
        answer = self._client.request(method, self._dice.choice(self._addresses) + path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer
