"""A crash run: load, kills, and the wait until all work is finished."""

import os
import random
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass

from alacarte.client import Client
from tests.e2e.cluster import Cluster
from tests.service.deployment import BACKBONE, SIZE
from tests.stress.crash.journal import Call, Journal
from tests.stress.crash.kill import KINDS, Killer
from tests.stress.crash.settle import expire_leases_of_dead, unfinished
from tests.stress.crash.users import Admin, Caller, KnownSources, Owner, PredictClient

RECIPE: dict[str, str | int] = {"epochs": 1, "augment": "none"}
TOGETHER_SHARE = 0.25  # of the kills do not wait for the restart of the part before
WAIT_SECONDS = 300.0
SHORT_BACKOFF_SECONDS = 5.0  # else the erasure runners would interrupt each other
REQUIRED_COUNTS = {"upload": 3, "sources forgotten": 1, "samples forgotten": 1}  # at least, while parts are killed


@dataclass(frozen=True)
class Plan:
    """The size of a crash run."""

    each: int  # number of kills of every kind
    predict_clients: int
    pace: int  # calls between two operations of owner or admin
    idle_s: float  # within which all work must be finished
    short_backoff: bool  # expire leases of killed processes at once in the end


@dataclass(frozen=True)
class Run:
    """The result of a crash run, after all work is finished."""

    journal: Journal
    killer: Killer
    granted: frozenset[str]  # sources that the predicting user may use in the end
    last: tuple[Call, ...]  # predictions in the end, from every address


def run_crashes(cluster: Cluster, plan: Plan, seed: int) -> Run:
    """Run the load, kill parts of every kind, and wait until all work is finished."""
    rng = random.Random(f"killer {seed}")
    journal, killer = Journal(), Killer(cluster, rng)
    sources: KnownSources = {}
    replicas = zip(cluster.replicas, cluster.replica_urls, strict=True)
    addresses = {"proxy": cluster.url} | {part.name: url for part, url in replicas}
    with ExitStack() as stack:

        def caller(token: str) -> Caller:
            return stack.enter_context(closing(Caller(addresses, token, journal)))

        with Client(cluster.url, cluster.admin_token) as admin:
            task = str(admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe=RECIPE).id)
            user = str(admin.create_user("eva").id)
            admin.create_user("olga", "owner")
            tokens = {name: admin.create_token(name).text for name in ("eva", "olga")}
        owner = Owner(caller(tokens["olga"]), sources, task, plan.pace, str(seed))
        admin_user = Admin(caller(cluster.admin_token), sources, user, plan.pace, str(seed))
        predict_clients = [
            PredictClient(caller(tokens["eva"]), addresses, task, f"{seed} {number}")
            for number in range(plan.predict_clients)
        ]
        # One permanent source, so that predictions always have an answer.
        first = owner.upload(is_temporary=False, is_whole=True).source
        assert first is not None
        admin_user.grant(first)
        await_idle(cluster, killer, plan.idle_s, short_backoff=False)

        with journal.running(owner.run, admin_user.run, *(client.run for client in predict_clients)):
            _kill_parts(killer, journal, rng, plan.each)
            killer.await_condition(
                lambda: journal.is_over or _has_enough(journal), "enough operations of every kind", WAIT_SECONDS
            )
            killer.restart()
            killer.await_up()  # before the end of the load, so that every retry succeeds
        await_idle(cluster, killer, plan.idle_s, short_backoff=plan.short_backoff)
        last = tuple(predict_clients[0].predict(0, target) for target in addresses)
    granted = frozenset(source for source, known in sources.items() if known.is_granted)
    return Run(journal, killer, granted, last)


def await_idle(cluster: Cluster, killer: Killer, idle_s: float, *, short_backoff: bool) -> None:
    shortened_at = 0.0

    def is_idle() -> bool:
        nonlocal shortened_at
        if short_backoff and time.monotonic() > shortened_at + SHORT_BACKOFF_SECONDS:
            expire_leases_of_dead(cluster.registry)
            shortened_at = time.monotonic()
        return not unfinished(cluster.registry)

    try:
        killer.await_condition(is_idle, "the end of all work", idle_s)
    except TimeoutError as error:
        raise AssertionError("\n".join(unfinished(cluster.registry))) from error


def read_seed(default: int) -> int:
    return int(os.environ.get("STRESS_SEED", default))


def _kill_parts(killer: Killer, journal: Journal, rng: random.Random, each: int) -> None:
    for kind in rng.sample(KINDS * each, len(KINDS) * each):
        _await_calls(killer, journal, rng.randrange(4, 16))
        killer.kill(kind)
        journal.await_calls(rng.randrange(1, 16))
        if journal.is_over:
            return
        if rng.random() < TOGETHER_SHARE:
            continue  # kill the next one while this one is down
        killer.restart()
        if rng.random() >= TOGETHER_SHARE:
            killer.await_up()


def _await_calls(killer: Killer, journal: Journal, more: int) -> None:
    target_count = len(journal.calls) + more
    killer.await_condition(lambda: journal.is_over or len(journal.calls) >= target_count, "answers", WAIT_SECONDS)


def _has_enough(journal: Journal) -> bool:
    done = journal.counts()
    return all(done[what] >= least for what, least in REQUIRED_COUNTS.items())
