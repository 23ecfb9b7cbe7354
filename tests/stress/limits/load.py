"""Load on the service, with samples of its memory."""

import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.servers.processes import wait_until
from tests.service.deployment import TASK, picture
from tests.stress.limits.memory import Memory
from tests.stress.limits.server import ServerProcess

CLIENTS = 4
KINDS = ("PNG", "JPEG", "GIF", "BMP")
SAMPLES = 100  # per run


def predict_often(server: ServerProcess, count: int) -> list[Memory]:
    """Send `count` predictions, as files and in JSON, in several picture formats; each must succeed."""

    def send(client: httpx.Client, number: int) -> None:
        content = picture(number, side=20 + number % 50, kind=KINDS[number % len(KINDS)])
        if number % 2:
            answer = client.post("/predict", files={"image": content}, data={"task": TASK})
        else:
            body = {"images": [b64encode(content).decode()], "task": TASK, "explain": number % 3 == 0}
            answer = client.post("/predict", json=body)
        assert answer.status_code == 200, answer.text

    return _sample_memory(server, count, send)


def predict_in_turn(server: ServerProcess, sources: Sequence[str], count: int, samples: int = SAMPLES) -> list[Memory]:
    """Send `count` predictions, each with the least recently used source."""

    def send(client: httpx.Client, number: int) -> None:
        files = {"image": picture(number)}
        answer = client.post("/predict", files=files, data={"task": TASK, "sources": sources[number % len(sources)]})
        assert answer.status_code == 200, answer.text

    return _sample_memory(server, count, send, samples)


def _sample_memory(
    server: ServerProcess, count: int, send: Callable[[httpx.Client, int], None], samples: int = SAMPLES
) -> list[Memory]:
    """Call `send` for every number below the count from several threads, and sample the memory meanwhile."""
    memories = []
    each = max(CLIENTS, count // samples)
    with client_of(server, "user") as client, ThreadPoolExecutor(CLIENTS) as threads:
        for first in range(0, count, each):
            for _ in threads.map(lambda number: send(client, number), range(first, min(count, first + each))):
                pass
            memories.append(server.memory)
    return memories


@contextmanager
def client_of(server: ServerProcess, who: str) -> Iterator[httpx.Client]:
    """Yield a client of the user that keeps its connections open."""
    headers = {"Authorization": f"Bearer {server.deployment.tokens[who]}"}
    with httpx.Client(base_url=server.deployment.url, headers=headers, timeout=300, verify=False) as client:
        yield client


class Flood:
    """Threads that each predict many pictures at once until stopped; the outcomes are counted."""

    def __init__(self, server: ServerProcess, who: str, threads: int, pictures: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._server = server
        self._who = who
        self._body = {"images": [b64encode(picture(number)).decode() for number in range(pictures)], "task": TASK}
        self._has_enough = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._predict_until_stopped) for _ in range(threads)]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the threads; at the end every request has been answered."""
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
        """Wait for as many further answers as there are threads."""
        target = self.outcomes.total() + len(self._threads)
        wait_until(lambda: self.outcomes.total() >= target, "answers to the flood", wait_s=300)

    def _predict_until_stopped(self) -> None:
        with client_of(self._server, self._who) as client:
            while not self._has_enough.is_set():
                try:
                    answer = client.post("/predict", json=self._body)
                    retry = int(answer.headers.get("retry-after", 0))
                    outcome = f"{answer.status_code}{' retry' if retry >= 1 else ''}"
                except httpx.TransportError as error:
                    outcome = repr(error)
                with self._lock:
                    self.outcomes[outcome] += 1
