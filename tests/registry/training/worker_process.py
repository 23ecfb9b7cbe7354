"""Workers that are killed at random: run as a module, it ends when all shards are trained, and writes what happened.

The workers are forked from one process that has imported everything, because most of them live briefly.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import exists, select

from registry import failpoints
from registry.db.database import Database
from registry.db.models.catalog import Shard
from registry.db.models.prompts import Prompt
from registry.errors import LeaseLost
from registry.registry import Registry, open_registry
from registry.settings import load_registry_settings
from registry.storage import write_claims
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard

WORKERS = 8
LEASE_SECONDS = 1.0
KILL_PROBABILITY = 0.04  # at each failpoint of publishing
KILLS = 12  # by the parent, at any moment
POLL_SECONDS = 0.05


@dataclass
class Outcome:
    """How the workers ended."""

    killed: int = 0  # by the parent or at a failpoint
    failed: int = 0  # ended by an error


def work(registry: Registry, seed: int) -> None:
    """Train until every shard is trained, or until killed."""
    rng = random.Random(seed)

    def kill_sometimes(point: str) -> None:
        if point.startswith("publish") and rng.random() < KILL_PROBABILITY:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.on_hit = kill_sometimes
    while True:
        try:
            if not attempt(registry, f"worker {os.getpid()}", rng):
                if is_done(registry.database):
                    return
                time.sleep(rng.uniform(1, 4) * POLL_SECONDS)
        except LeaseLost:
            continue


def attempt(registry: Registry, worker: str, rng: random.Random) -> bool:
    """Train one shard; return whether one was due."""
    if rng.random() < 0.1:
        write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    with lease_shard(registry, worker, seconds=LEASE_SECONDS) as leased:
        if leased is None:
            return False
        lease, folder = leased
        data = f"{lease.shard_id} of {lease.seed}".encode()
        (folder / "prompt").write_bytes(data)
        labels = tuple(sorted({sample.label for sample in lease.samples}))
        publish(registry, lease, data, PublishedMetadata("a" * 64, labels, len(lease.samples), {}))
    return True


def is_done(database: Database) -> bool:
    with database.read_transaction() as session:
        untrained = exists().where(Shard.id.not_in(select(Prompt.shard_id)))
        return not session.scalar(select(untrained))


def run(seed: int) -> Outcome:
    """Keep the number of workers, whichever are killed, until one of them finds that all shards are trained."""
    rng = random.Random(seed)
    outcome = Outcome()
    workers: set[int] = set()
    kills = 0
    all_trained = False
    while workers or not all_trained:
        while not all_trained and len(workers) < WORKERS:
            workers.add(fork(rng.getrandbits(32)))
        if kills < KILLS and rng.random() < 0.2:
            os.kill(rng.choice(sorted(workers)), signal.SIGKILL)
            kills += 1
        time.sleep(POLL_SECONDS)
        while workers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            workers.remove(ended[0])
            code = os.waitstatus_to_exitcode(ended[1])
            outcome.killed += code == -signal.SIGKILL
            outcome.failed += code > 0
            all_trained |= code >= 0
    return outcome


def fork(seed: int) -> int:
    """Start a worker and return its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(open_registry(load_registry_settings()), seed)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # without the exit handlers of the parent
    return child


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(vars(run(int(sys.argv[1])))))
