"""The race: clients predict without pause while admins delete, re-create, revoke and grant."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.stress.race.checker import count_overlaps
from tests.stress.race.fixtures import PERMANENT, SLOTS, USERS, RaceSetup
from tests.stress.race.history import History, Recorder
from tests.stress.race.users import Admin, PredictClient

ADMINS = 2
CLIENTS_EACH = 2  # for each user and address
PROGRESS_CHECKS = 20  # per race, at least


def run_race(
    addresses: Sequence[str], admin_token: str, setup: RaceSetup, *, raced: int, limit_s: float, seed: int = 0
) -> History:
    """Run until `raced` calls have overlapped a deletion or revocation, and return the history."""
    recorder = Recorder()
    admins = [Admin(addresses, admin_token, setup, recorder, seed + number) for number in range(ADMINS)]
    admins[0].create_source(PERMANENT, f"stays {time.monotonic_ns()}")
    work: list[Callable[[], None]] = [
        PredictClient(f"{user}-{number}-{position}", address, user, setup, recorder, seed).run
        for position, address in enumerate(addresses)
        for user in USERS
        for number in range(CLIENTS_EACH)
    ]
    work += [partial(admin.run, range(number, SLOTS, ADMINS)) for number, admin in enumerate(admins)]
    end = time.monotonic() + limit_s
    with recorder.running(*work):
        while not recorder.is_over:
            recorder.await_calls(1 + raced // PROGRESS_CHECKS)
            if count_overlaps(recorder.history()).raced >= raced:
                break
            assert time.monotonic() < end, f"not {raced} raced calls within {limit_s} s"
    return recorder.history()
