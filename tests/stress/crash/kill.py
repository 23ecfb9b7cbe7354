"""kill -9 of one part after the other, and the hand that starts again whatever has ended, as an orchestrator would."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.e2e.cluster import Cluster
from tests.e2e.process import ManagedProcess, answers, has_logged
from tests.servers.processes import until

Kind = Literal["worker", "replica", "postgres", "s3"]
KINDS: tuple[Kind, ...] = ("worker", "replica", "postgres", "s3")
UP_SECONDS = 300.0


@dataclass(frozen=True)
class Outage:
    """A part was down, or on its way up, from one moment to another."""

    part: str
    since: float
    until: float


class Killer:
    """Kills parts of a cluster; all of it from one thread, with which every process ends that it has started."""

    def __init__(self, cluster: Cluster, dice: random.Random) -> None:
        self._topology = cluster
        self._dice = dice
        self._down: set[str] = set()  # and not to be started before somebody says so
        self._since: dict[str, float] = {}  # of the outages that last
        self.outages: list[Outage] = []
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []  # parts that were up, and have ended though nobody killed them

    def kill(self, kind: Kind) -> str:
        """One part of the kind is gone at once; returns its name."""
        name = self._choose(kind)
        self._since.setdefault(name, time.monotonic())
        match kind:
            case "postgres":
                self._topology.postgres.kill()
            case "s3":
                self._topology.s3.kill()
            case _:
                self._topology.parts[name].kill()
        self._down.add(name)
        self.kills[kind] += 1
        return name

    def restart(self) -> None:
        """Whatever is down is started: the stores answer, the others are on their way."""
        for name, server in (("postgres", self._topology.postgres), ("s3", self._topology.s3)):
            if name in self._down:
                server.start()
                self._end_outage(name)
        self._down.clear()
        self._tend()

    def await_up(self) -> None:
        """Every part is up."""
        self.await_that(lambda: not self._since, "the start of all parts", UP_SECONDS)

    def await_that(self, condition: Callable[[], bool], what: str, wait_s: float) -> None:
        """The condition holds; meanwhile what has ended by itself, for want of another part, is started again."""

        def holds() -> bool:
            self._tend()
            return condition()

        until(holds, what, wait_s=wait_s)

    def _choose(self, kind: Kind) -> str:
        """One that is not down already, if there is one."""
        names = _named(self._topology, kind)
        return self._dice.choice([name for name in names if name not in self._down] or names)

    def _tend(self) -> None:
        for part in (*self._topology.replicas, *self._topology.workers):
            if part.name in self._down:
                continue
            if not part.is_running:
                if part.name not in self._since:
                    self.ended.append(part.name)
                    self._since[part.name] = time.monotonic()
                part.begin()
            elif part.name in self._since and self._is_up(part):
                self._end_outage(part.name)

    def _is_up(self, part: ManagedProcess) -> bool:
        if part in self._topology.workers:
            return has_logged("worker started")(part)
        url = self._topology.replica_urls[self._topology.replicas.index(part)]
        return answers(f"{url}/readyz")(part)

    def _end_outage(self, name: str) -> None:
        self.outages.append(Outage(name, self._since.pop(name), time.monotonic()))


def _named(cluster: Cluster, kind: Kind) -> list[str]:
    match kind:
        case "worker":
            return [part.name for part in cluster.workers]
        case "replica":
            return [part.name for part in cluster.replicas]
        case _:
            return [kind]


def draw_kinds(dice: random.Random, each: int) -> Sequence[Kind]:
    """So many of every kind, in any order."""
    kinds = list(KINDS) * each
    dice.shuffle(kinds)
    return kinds
