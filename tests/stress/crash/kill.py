"""Kill one part after the other with SIGKILL, and restart what has ended, as an orchestrator would."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.e2e.cluster import Cluster
from tests.servers.postgres import PostgresServer
from tests.servers.processes import wait_until
from tests.servers.s3 import OwnS3Server

Kind = Literal["worker", "replica", "postgres", "s3"]
KINDS: tuple[Kind, ...] = ("worker", "replica", "postgres", "s3")
UP_SECONDS = 300.0


@dataclass(frozen=True)
class Outage:
    """The time in which a part was down or starting."""

    part: str
    since: float
    until: float


class Killer:
    """Kills and restarts parts of a cluster. Use it from one thread: a process ends with the thread that started it."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._stores: dict[str, PostgresServer | OwnS3Server] = {"postgres": cluster.postgres, "s3": cluster.s3}
        self._rng = rng
        self._down: set[str] = set()  # until restart() is called
        self._since: dict[str, float] = {}  # of the current outages
        self.outages: list[Outage] = []
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []  # parts that ended without being killed

    def kill(self, kind: Kind) -> None:
        """Kill one part of the kind, if possible one that is not down."""
        names = [name for name in self._cluster.parts if name.startswith(f"{kind}-")] or [kind]
        name = self._rng.choice([name for name in names if name not in self._down] or names)
        self._since.setdefault(name, time.monotonic())
        (self._stores.get(name) or self._cluster.parts[name]).kill()
        self._down.add(name)
        self.kills[kind] += 1

    def restart(self) -> None:
        """Start everything that is down; the database and the object store answer when this returns."""
        for name, store in self._stores.items():
            if name in self._down:
                store.start()
                self._end_outage(name)
        self._down.clear()
        self._restart_ended()

    def await_up(self) -> None:
        self.await_condition(lambda: not self._since, "the start of all parts", UP_SECONDS)

    def await_condition(self, condition: Callable[[], bool], what: str, wait_s: float) -> None:
        """Wait for the condition; restart what ends by itself meanwhile because another part is down."""

        def holds() -> bool:
            self._restart_ended()
            return condition()

        wait_until(holds, what, wait_s=wait_s)

    def _restart_ended(self) -> None:
        for part in (*self._cluster.replicas, *self._cluster.workers):
            if part.name in self._down:
                continue
            if not part.is_running:
                if part.name not in self._since:
                    self.ended.append(part.name)
                    self._since[part.name] = time.monotonic()
                part.begin()
            elif part.name in self._since and part.is_up:
                self._end_outage(part.name)

    def _end_outage(self, name: str) -> None:
        self.outages.append(Outage(name, self._since.pop(name), time.monotonic()))
