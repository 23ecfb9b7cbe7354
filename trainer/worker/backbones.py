"""The backbones of a worker: each is built when a task first needs it, and kept for the next shards."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait

from alacarte.prompting.backbone.vit import Backbone

MAX_KEPT = 2  # a worker seldom serves more tasks than that, and each may fill a device
CHECK_SECONDS = 0.2

BuildBackbone = Callable[[str, int | None], Backbone]  # of a name and a size
Key = tuple[str, int | None]


class WorkerBackbones:
    """Backbones by name and size, used by one thread; the least recently used one is dropped first."""

    def __init__(self, build: BuildBackbone) -> None:
        self._build = build
        self._built: OrderedDict[Key, Future[Backbone]] = OrderedDict()

    def get(self, name: str, size: int | None, check: Callable[[], None]) -> Backbone:
        """Return the backbone, built now if necessary; meanwhile `check` is called and can raise to stop waiting."""
        key = (name, size)
        if key not in self._built:
            while len(self._built) >= MAX_KEPT:  # before the new one needs the memory
                self._built.popitem(last=False)
            self._built[key] = self._start(key)
        self._built.move_to_end(key)
        future = self._built[key]
        check()
        while not wait((future,), CHECK_SECONDS).done:
            check()
        if future.exception() is not None:
            del self._built[key]  # the hub may be reachable again for the next shard
        return future.result()

    def _start(self, key: Key) -> Future[Backbone]:
        """Build in a daemon thread: a download of gigabytes cannot be interrupted, only left behind."""
        future: Future[Backbone] = Future()

        def build() -> None:
            try:
                future.set_result(self._build(*key))
            except BaseException as error:  # raised again by `get`
                future.set_exception(error)

        threading.Thread(target=build, name="backbone", daemon=True).start()
        return future
