"""A client thread of the race: predicts without pause and records every answer with its times."""

import json
import random
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from tests.stress.race.fixtures import PICTURES, PROMPTS, RaceSetup, picture_text
from tests.stress.race.history import PredictCall
from tests.stress.race.recorder import Recorder
from tests.stress.race.replica import COMPUTED_AT

NAMED_SHARE = 0.25  # of the calls name one source


class Client:
    """Predicts at one address as one user. It uses http.client because it shares the cores with the service."""

    def __init__(self, name: str, address: str, user: str, setup: RaceSetup, recorder: Recorder, seed: int) -> None:
        self._name, self._user = name, user
        parts = urlsplit(address)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._task = setup.task
        self._headers = {"Authorization": f"Bearer {setup.tokens[user]}", "Content-Type": "application/json"}
        self._recorder = recorder
        self._random = random.Random(f"{name} {seed}")

    def predict_until_stopped(self) -> None:
        """Predict until the race is over."""
        with closing(self._connection):
            while not self._recorder.is_over:
                alive = self._recorder.alive
                named_source = self._random.choice(alive) if alive and self._random.random() < NAMED_SHARE else None
                self._recorder.add_call(self._predict(self._random.randrange(PICTURES), named_source))

    def _predict(self, picture: int, named_source: str | None) -> PredictCall:
        request: dict[str, object] = {"task": self._task, "images": [picture_text(picture)], "top_k": PROMPTS}
        if named_source is not None:
            request["sources"] = [named_source]
        body = json.dumps(request)
        sent = time.monotonic()
        try:
            self._connection.request("POST", "/predict", body, self._headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            self._connection.close()
            return PredictCall(self._name, self._user, picture, sent, time.monotonic(), 0, named_source)
        received = time.monotonic()
        if response.status != 200:
            return PredictCall(self._name, self._user, picture, sent, received, response.status, named_source)
        document = json.loads(content)
        computed = response.headers.get(COMPUTED_AT)
        return PredictCall(
            self._name,
            self._user,
            picture,
            sent,
            received,
            response.status,
            named_source,
            computed=None if computed is None else float(computed),
            sources=frozenset(document["sources"]),
            scores={one["label"]: one["score"] for one in document["results"][0]["labels"]},
        )
