"""The threads of a race: clients that predict without pause, and admins that create, grant, revoke and delete."""

import json
import random
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.stress.faulty_server import COMPUTED_AT
from tests.stress.race.fixtures import PICTURES, PROMPTS, SLOTS, USERS, VARIANTS, RaceSetup, picture_text, prompt_bytes
from tests.stress.race.history import Operation, PredictCall, Recorder, Write

NAMED_SHARE = 0.25  # of the calls name one source
PACE = 2  # answered predictions between two writes; without it, sets change faster than a prediction takes


class PredictClient:
    """Predicts at one address as one user. It uses http.client because it shares the cores with the service."""

    def __init__(self, name: str, address: str, user: str, setup: RaceSetup, recorder: Recorder, seed: int) -> None:
        self._name, self._user = name, user
        parts = urlsplit(address)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._task = setup.task
        self._headers = {"Authorization": f"Bearer {setup.tokens[user]}", "Content-Type": "application/json"}
        self._recorder = recorder
        self._random = random.Random(f"{name} {seed}")

    def run(self) -> None:
        with closing(self._connection):
            while not self._recorder.is_over:
                alive = tuple(self._recorder.alive)
                named_source = self._random.choice(alive) if alive and self._random.random() < NAMED_SHARE else None
                self._recorder.add(self._predict(self._random.randrange(PICTURES), named_source))

    def _predict(self, picture: int, named_source: str | None) -> PredictCall:
        request: dict[str, object] = {"task": self._task, "images": [picture_text(picture)], "top_k": PROMPTS}
        if named_source is not None:
            request["sources"] = [named_source]
        body = json.dumps(request)
        call = partial(PredictCall, self._name, self._user, picture, time.monotonic(), named_source=named_source)
        try:
            self._connection.request("POST", "/predict", body, self._headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            self._connection.close()
            return call(received=time.monotonic(), status=0)
        received = time.monotonic()
        if response.status != 200:
            return call(received=received, status=response.status)
        document = json.loads(content)
        computed = response.headers.get(COMPUTED_AT)
        return call(
            received=received,
            status=200,
            computed=None if computed is None else float(computed),
            sources=frozenset(document["sources"]),
            scores={one["label"]: one["score"] for one in document["results"][0]["labels"]},
        )


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
        with closing(self._client):
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

    def create_source(self, prompt: int, name: str) -> str:
        """Create a source with this prompt, grant it to all users and return its id."""
        created = self._request("POST", "/sources", json={"name": name, "task": self._setup.task})
        source = str(created.json()["source_id"])
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
