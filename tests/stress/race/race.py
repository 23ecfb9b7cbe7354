"""The race: clients predict without pause while admins delete, re-create, revoke and grant."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from tests.stress.race.admin import Admin
from tests.stress.race.client import Client
from tests.stress.race.fixtures import PERMANENT, SLOTS, USERS, RaceSetup
from tests.stress.race.history import History
from tests.stress.race.overlaps import count_overlaps
from tests.stress.race.recorder import Recorder

ADMINS = 2
CLIENTS_EACH = 2  # for each user and address
PROGRESS_CHECKS = 20  # per race, at least


def run_race(
    addresses: Sequence[str], admin_token: str, setup: RaceSetup, *, raced: int, limit_s: float, seed: int = 0
) -> History:
    """Run until `raced` calls have overlapped a deletion or revocation, and return the history."""
    recorder = Recorder()
    with closing(Admin(addresses, admin_token, setup, recorder, seed)) as admin:
        admin.create_source(PERMANENT, f"stays {time.monotonic_ns()}")
    work: list[Callable[[], None]] = [
        Client(f"{user}-{number}-{position}", address, user, setup, recorder, seed).predict_until_stopped
        for position, address in enumerate(addresses)
        for user in USERS
        for number in range(CLIENTS_EACH)
    ]
    for number in range(ADMINS):
        other = Admin(addresses, admin_token, setup, recorder, seed + 1 + number)
        work.append(partial(other.run, range(number, SLOTS, ADMINS)))
    threads = [threading.Thread(target=_run, args=(one, recorder)) for one in work]
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit_s
    try:
        while not recorder.is_over:
            recorder.await_calls(1 + raced // PROGRESS_CHECKS)
            if count_overlaps(recorder.history()).raced >= raced:
                break
            assert time.monotonic() < end, f"not {raced} raced calls within {limit_s} s"
    finally:
        recorder.finish()
        for thread in threads:
            thread.join()
    recorder.require_sound()
    return recorder.history()


def _run(work: Callable[[], None], recorder: Recorder) -> None:
    try:
        work()
    except BaseException as error:  # raised again by the thread that joins all
        recorder.finish(error)
