"""Load on the service, with samples of its memory."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.e2e.call_log import CallLog, record_outcomes
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


def client_of(server: ServerProcess, who: str) -> httpx.Client:
    """Return a client of the user that keeps its connections open."""
    headers = {"Authorization": f"Bearer {server.deployment.tokens[who]}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers, timeout=300, verify=False)


@contextmanager
def flood(server: ServerProcess, who: str, threads: int, pictures: int) -> Iterator[CallLog[str]]:
    """Predict many pictures at once from each thread; at the end every request has been answered."""
    outcomes: CallLog[str] = CallLog()
    body = {"images": [b64encode(picture(number)).decode() for number in range(pictures)], "task": TASK}

    def send(client: httpx.Client) -> str:
        answer = client.post("/predict", json=body)
        return f"{answer.status_code}{' retry' if int(answer.headers.get('retry-after', 0)) >= 1 else ''}"

    with outcomes.running(*[lambda: record_outcomes(outcomes, client_of(server, who), send)] * threads):
        outcomes.await_calls(threads)
        yield outcomes
