"""The backbones of a worker: each built when a task first needs it, and kept, since tasks have many shards."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait

from alacarte.prompting.backbone.vit import Backbone

MOST = 2  # kept at once: a worker seldom serves more tasks than that, and each may fill a device
LOOK_SECONDS = 0.2

Build = Callable[[str, int | None], Backbone]  # of a name and a size
Key = tuple[str, int | None]


class WorkerBackbones:
    """Backbones by name and size, used by one thread; the one that was not used for longest leaves first."""

    def __init__(self, build: Build, most: int = MOST) -> None:
        self._build = build
        self._most = most
        self._built: OrderedDict[Key, Future[Backbone]] = OrderedDict()

    def get(self, name: str, size: int | None, check: Callable[[], None]) -> Backbone:
        """The backbone, built now if need be; `check` is called meanwhile, and what it raises ends the waiting."""
        key = (name, size)
        if key not in self._built:
            while len(self._built) >= self._most:  # before the new one needs the memory
                self._built.popitem(last=False)
            self._built[key] = self._start(key)
        self._built.move_to_end(key)
        building = self._built[key]
        check()
        while not wait((building,), LOOK_SECONDS).done:
            check()
        if building.exception() is not None:
            del self._built[key]  # a hub that was away may be back for the next shard
        return building.result()

    def _start(self, key: Key) -> Future[Backbone]:
        """Builds in a thread that can be left behind: a download of gigabytes cannot be interrupted."""
        building: Future[Backbone] = Future()

        def build() -> None:
            try:
                building.set_result(self._build(*key))
            except BaseException as error:  # whatever it is, the one who waits is told
                building.set_exception(error)

        threading.Thread(target=build, name="backbone", daemon=True).start()
        return building
