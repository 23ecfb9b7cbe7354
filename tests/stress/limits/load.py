"""Askers without pause, and the service's memory through their run."""

import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.servers.processes import until
from tests.service.deployment import TASK, picture
from tests.stress.limits.memory import Memory
from tests.stress.limits.server import ServerProcess

ASKERS = 4
KINDS = ("PNG", "JPEG", "GIF", "BMP")
SAMPLES = 100  # of a run


def predict_often(server: ServerProcess, count: int) -> list[Memory]:
    """So many predictions, as files and in JSON, of pictures in several formats, each answered well."""

    def ask(client: httpx.Client, number: int) -> None:
        content = picture(number, side=20 + number % 50, kind=KINDS[number % len(KINDS)])
        if number % 2:
            answer = client.post("/predict", files={"image": content}, data={"task": TASK})
        else:
            asked = {"images": [b64encode(content).decode()], "task": TASK, "explain": number % 3 == 0}
            answer = client.post("/predict", json=asked)
        assert answer.status_code == 200, answer.text

    return _sampled(server, count, ask)


def predict_in_turn(server: ServerProcess, sources: Sequence[str], count: int, samples: int = SAMPLES) -> list[Memory]:
    """So many predictions, by one source after the other, so that each prompt was asked for longest ago."""

    def ask(client: httpx.Client, number: int) -> None:
        asked = {"image": picture(number)}
        answer = client.post("/predict", files=asked, data={"task": TASK, "sources": sources[number % len(sources)]})
        assert answer.status_code == 200, answer.text

    return _sampled(server, count, ask, samples)


def _sampled(
    server: ServerProcess, count: int, ask: Callable[[httpx.Client, int], None], samples: int = SAMPLES
) -> list[Memory]:
    """Asks for every number below the count, from several threads; looks at the memory again and again."""
    seen = []
    each = max(ASKERS, count // samples)
    with client_of(server, "user") as client, ThreadPoolExecutor(ASKERS) as predict_clients:
        for first in range(0, count, each):
            for _ in predict_clients.map(lambda number: ask(client, number), range(first, min(count, first + each))):
                pass
            seen.append(server.memory)
    return seen


@contextmanager
def client_of(server: ServerProcess, who: str) -> Iterator[httpx.Client]:
    """Keeps connections open, as a client does that asks often."""
    headers = {"Authorization": f"Bearer {server.world.tokens[who]}"}
    with httpx.Client(base_url=server.world.url, headers=headers, timeout=300, verify=False) as client:
        yield client


class Flood:
    """Many threads that ask for many pictures at once until they are told to end; what they are told is counted."""

    def __init__(self, server: ServerProcess, who: str, threads: int, pictures: int) -> None:
        self.told: Counter[str] = Counter()
        self._house = server
        self._who = who
        self._asked = {"images": [b64encode(picture(number)).decode() for number in range(pictures)], "task": TASK}
        self._has_enough = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(threads)]

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Everybody asks; afterwards each has been answered."""
        for thread in self._threads:
            thread.start()
        try:
            self.await_more()
            yield
        finally:
            self._has_enough.set()
            for thread in self._threads:
                thread.join()

    def await_more(self) -> None:
        """As many answers have come once more as there are threads."""
        wanted = self.told.total() + len(self._threads)
        until(lambda: self.told.total() >= wanted, "answers to the flood", wait_s=300)

    def _ask_on(self) -> None:
        with client_of(self._house, self._who) as client:
            while not self._has_enough.is_set():
                try:
                    answer = client.post("/predict", json=self._asked)
                    retry = int(answer.headers.get("retry-after", 0))
                    told = f"{answer.status_code}{' retry' if retry >= 1 else ''}"
                except httpx.TransportError as error:
                    told = repr(error)
                with self._lock:
                    self.told[told] += 1
