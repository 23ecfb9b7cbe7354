"""Forgetting against asking, on two replicas: no request that begins after the answer to DELETE uses the source."""

import threading
import time
from base64 import b64encode
from functools import partial
from uuid import UUID

import httpx

from service.settings import ServiceSettings
from tests.service.conftest import MakeWorld
from tests.service.serving import serve
from tests.service.waiting import wait_for
from tests.service.world import TASK, World, picture

ROUNDS = 8
ASKERS = 4


class Asker(threading.Thread):
    """Asks one replica again and again, and keeps when it began and what the answer rests on."""

    def __init__(self, url: str, token: str, stop: threading.Event) -> None:
        super().__init__()
        self._url, self._token, self._stop_asking = url, token, stop
        self.seen: list[tuple[float, int, set[str]]] = []

    def run(self) -> None:
        asked = {"images": [b64encode(picture()).decode()], "task": TASK}
        headers = {"Authorization": f"Bearer {self._token}"}
        with httpx.Client(timeout=60, verify=False) as client:
            while not self._stop_asking.is_set():
                began = time.monotonic()
                answer = client.post(f"{self._url}/predict", json=asked, headers=headers)
                self.seen.append((began, answer.status_code, set(answer.json().get("sources", []))))


def have_more(askers: list[Asker], before: list[int]) -> bool:
    return all(len(asker.seen) > seen for asker, seen in zip(askers, before, strict=True))


def forget_one_after_the_other(world: World, sources: list[UUID], askers: list[Asker]) -> dict[str, float]:
    """When each DELETE was answered; before each, every asker has had another answer."""
    forgotten = {}
    for source in sources:
        wait_for(partial(have_more, askers, [len(asker.seen) for asker in askers]))
        assert world.ask("owner", "DELETE", f"/sources/{source}").status_code == 202
        forgotten[str(source)] = time.monotonic()
    return forgotten


def test_no_request_after_a_delete_uses_what_was_forgotten(make_world: MakeWorld) -> None:
    world = make_world()
    sources = [world.add_source() for _ in range(ROUNDS)]
    for number, source in enumerate(sources):
        world.publish(source, number)
    home = world.registry.scratch.folder.parent
    stop = threading.Event()
    with serve(ServiceSettings(home=home, database="", objects="", weights="random")) as other:
        askers = [Asker(url, world.tokens["user"], stop) for url in (world.url, other) * (ASKERS // 2)]
        for asker in askers:
            asker.start()
        forgotten = forget_one_after_the_other(world, sources, askers)
        stop.set()
        for asker in askers:
            asker.join(60)

    seen = [one for asker in askers for one in asker.seen]
    assert len(seen) >= ASKERS
    assert any(used & forgotten.keys() for _, _, used in seen)  # or the race was none
    for began, status, used in seen:
        assert status in (200, 503), status  # 503: what may be used changed three times while one was answered
        late = {source for source in used if source in forgotten and forgotten[source] < began}
        assert not late
