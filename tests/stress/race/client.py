"""A client of a race: it asks without pause, and writes down what it was told, and when."""

import json
import random
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from tests.stress.race.fixtures import PICTURES, PROMPTS, RaceSetup, picture_text
from tests.stress.race.history import Ask
from tests.stress.race.recorder import Recorder
from tests.stress.race.replica import COMPUTED_AT

NAMED_SHARE = 0.25  # of the asks that name one source


class Client:
    """Asks one address in the name of one user, by the leanest HTTP there is: it shares the cores with the service."""

    def __init__(self, name: str, address: str, user: str, setup: RaceSetup, recorder: Recorder, seed: int) -> None:
        self._name, self._user = name, user
        place = urlsplit(address)
        self._connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        self._task = setup.task
        self._headers = {"Authorization": f"Bearer {setup.tokens[user]}", "Content-Type": "application/json"}
        self._recorder = recorder
        self._dice = random.Random(f"{name} {seed}")

    def predict_until_stopped(self) -> None:
        """Asks until the race is over."""
        with closing(self._connection):
            while not self._recorder.is_over:
                alive = self._recorder.alive
                asked = self._dice.choice(alive) if alive and self._dice.random() < NAMED_SHARE else None
                self._recorder.add_ask(self._ask(self._dice.randrange(PICTURES), asked))

    def _ask(self, picture: int, asked: str | None) -> Ask:
        question: dict[str, object] = {"task": self._task, "images": [picture_text(picture)], "top_k": PROMPTS}
        if asked is not None:
            question["sources"] = [asked]
        body = json.dumps(question)
        sent = time.monotonic()
        try:
            self._connection.request("POST", "/predict", body, self._headers)
            answer = self._connection.getresponse()
            document = answer.read()
        except (OSError, HTTPException):
            self._connection.close()
            return Ask(self._name, self._user, picture, sent, time.monotonic(), 0, asked)
        received = time.monotonic()
        if answer.status != 200:
            return Ask(self._name, self._user, picture, sent, received, answer.status, asked)
        told = json.loads(document)
        computed = answer.headers.get(COMPUTED_AT)
        return Ask(
            self._name,
            self._user,
            picture,
            sent,
            received,
            answer.status,
            asked,
            computed=None if computed is None else float(computed),
            sources=frozenset(told["sources"]),
            scores={one["label"]: one["score"] for one in told["results"][0]["labels"]},
        )
