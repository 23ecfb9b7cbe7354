"""A crash run from the first upload to the rest after the last kill."""

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from alacarte.client import Client
from tests.e2e.cluster import Cluster
from tests.service.deployment import BACKBONE, SIZE
from tests.stress.crash.journal import Call, Journal
from tests.stress.crash.kill import Killer, draw_kinds
from tests.stress.crash.known_sources import KnownSources
from tests.stress.crash.requests import Caller
from tests.stress.crash.settle import let_time_pass, unfinished
from tests.stress.crash.users import Admin, Asker, Owner

RECIPE: dict[str, str | int] = {"epochs": 1, "augment": "none"}
TOGETHER_SHARE = 0.25  # of the kills that do not wait for the last part to be up again
PATIENCE_SECONDS = 300.0
SHORT_BACKOFF_SECONDS = 5.0  # else those who work on an erasure would never be left alone with it
WANTED = {"upload": 3, "sources forgotten": 1, "samples forgotten": 1}  # at least, while parts are killed


@dataclass(frozen=True)
class Plan:
    """How hard a crash run is."""

    each: int  # kills of every kind
    predict_clients: int
    pace: int  # answers to anybody between two deeds of owner or admin
    rest_s: float  # within which all must be at rest
    short_backoff: bool  # in the end: the time of the dead is up at once


@dataclass(frozen=True)
class Run:
    """What happened in a crash run; all is at rest."""

    journal: Journal
    killer: Killer
    known_sources: KnownSources
    last: tuple[Call, ...]  # answers after everything was at rest, from every address


def run_crashes(cluster: Cluster, plan: Plan, seed: int) -> Run:
    """Kills of every kind under load, and the rest after them."""
    dice = random.Random(f"killer {seed}")
    journal, known_sources, killer = Journal(), KnownSources(), Killer(cluster, dice)
    addresses = {"proxy": cluster.url, **_named(cluster)}
    with ExitStack() as stack:

        def caller(token: str) -> Caller:
            made = Caller(addresses, token, journal)
            stack.callback(made.close)
            return made

        with Client(cluster.url, cluster.admin_token) as admin:
            task = admin.create_task("animals", backbone=BACKBONE, size=SIZE, recipe=RECIPE).id
            user = admin.create_user("eva").id
            admin.create_user("olga", "owner")
            tokens = {name: admin.issue_token(name).text for name in ("eva", "olga")}
        owner = Owner(caller(tokens["olga"]), known_sources, task, plan.pace, str(seed))
        ruler = Admin(caller(cluster.admin_token), known_sources, user, plan.pace, str(seed))
        predict_clients = [
            Asker(caller(tokens["eva"]), addresses, task, f"{seed} {number}") for number in range(plan.predict_clients)
        ]
        # One source that always stays, so that there is always something to answer by.
        first = owner.upload(is_temporary=False, is_whole=True).source
        assert first is not None
        ruler.grant(first)
        until_rest(cluster, killer, plan.rest_s, short_backoff=False)

        threads = [
            threading.Thread(target=_run, args=(work, journal))
            for work in (owner.run, ruler.run, *(asker.run for asker in predict_clients))
        ]
        for thread in threads:
            thread.start()
        try:
            _kill_on(killer, journal, dice, plan.each)
            killer.await_that(lambda: journal.is_over or _is_enough(journal), "deeds of everybody", PATIENCE_SECONDS)
            killer.restart()
            killer.await_up()  # and only then is it over: who tries again and again gets it done
        finally:
            journal.finish()
            for thread in threads:
                thread.join()
        journal.require_sound()
        until_rest(cluster, killer, plan.rest_s, short_backoff=plan.short_backoff)
        last = tuple(predict_clients[0].ask(0, place) for place in addresses)
    return Run(journal, killer, known_sources, last)


def until_rest(cluster: Cluster, killer: Killer, rest_s: float, *, short_backoff: bool) -> None:
    """Nothing is left to be done."""
    hurried_at = 0.0

    def is_at_rest() -> bool:
        nonlocal hurried_at
        if short_backoff and time.monotonic() > hurried_at + SHORT_BACKOFF_SECONDS:
            let_time_pass(cluster.registry)
            hurried_at = time.monotonic()
        return not unfinished(cluster.registry)

    try:
        killer.await_that(is_at_rest, "rest", rest_s)
    except TimeoutError as error:
        raise AssertionError("\n".join(unfinished(cluster.registry))) from error


def read_seed(default: int) -> int:
    """The seed of the environment, if it names one."""
    return int(os.environ.get("STRESS_SEED", default))


def _kill_on(killer: Killer, journal: Journal, dice: random.Random, each: int) -> None:
    for kind in draw_kinds(dice, each):
        _await_calls(killer, journal, dice.randrange(4, 16))
        killer.kill(kind)
        journal.await_calls(dice.randrange(1, 16))
        if journal.is_over:
            return
        if dice.random() < TOGETHER_SHARE:
            continue  # the next one is killed while this one is down
        killer.restart()
        if dice.random() >= TOGETHER_SHARE:
            killer.await_up()


def _await_calls(killer: Killer, journal: Journal, more: int) -> None:
    """So many more calls have come back, well or not."""
    wanted = len(journal.calls) + more
    killer.await_that(lambda: journal.is_over or len(journal.calls) >= wanted, "answers", PATIENCE_SECONDS)


def _is_enough(journal: Journal) -> bool:
    done = journal.counts()
    return all(done[what] >= least for what, least in WANTED.items())


def _named(cluster: Cluster) -> dict[str, str]:
    return {part.name: url for part, url in zip(cluster.replicas, cluster.replica_urls, strict=True)}


def _run(work: Callable[[], Any], journal: Journal) -> None:  # Any: nobody looks at it
    try:
        work()
    except BaseException as error:  # told by the thread that waits for all
        journal.finish(error)
