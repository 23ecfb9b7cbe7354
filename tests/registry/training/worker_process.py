"""A crowd of workers that are killed all the time: run as a module, it ends when all work is done and says its story.

The workers are forked from one process that has imported everything, since most of them do not live long.
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
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.settings import load_registry_settings
from registry.storage import write_claims
from registry.storage.factory import open_store
from registry.storage.scratch import ScratchSpace
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard

WORKERS = 8
LEASE_SECONDS = 1.0
DEATHS_IN_PUBLISHING = 0.04  # of all times that a worker comes by one of its points
KILLS = 12  # by the crowd, at any moment
POLL_SECONDS = 0.05


@dataclass
class Story:
    """What happened to the workers."""

    killed: int = 0  # by the crowd or inside publishing
    failed: int = 0  # ended by an error, as none should


def registry_without_connections() -> Registry:
    """The registry of the environment; forked processes must not share a connection."""
    settings = load_registry_settings()
    secret = settings.s3_secret_key
    objects = open_store(
        settings.objects_location,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key=settings.s3_access_key,
        secret_key=None if secret is None else secret.get_secret_value(),
    )
    signer = open_signer(settings.signing_key_file)
    return Registry(Database(settings.database_url), objects, ScratchSpace(settings.scratch_folder), signer)


def work(registry: Registry, seed: int) -> None:
    """Trains until every shard is trained, or until death."""
    chance = random.Random(seed)

    def die_sometimes(point: str) -> None:
        if point.startswith("publish") and chance.random() < DEATHS_IN_PUBLISHING:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.on_hit = die_sometimes
    while True:
        try:
            if not attempt(registry, f"worker {os.getpid()}", chance):
                if is_done(registry.database):
                    return
                time.sleep(chance.uniform(1, 4) * POLL_SECONDS)
        except LeaseLost:
            continue


def attempt(registry: Registry, worker: str, chance: random.Random) -> bool:
    """One piece of work, if there is any."""
    if chance.random() < 0.1:
        write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    with lease_shard(registry, worker, seconds=LEASE_SECONDS) as found:
        if found is None:
            return False
        lease, folder = found
        data = f"{lease.shard_id} of {lease.seed}".encode()
        (folder / "prompt").write_bytes(data)
        labels = tuple(sorted({sample.label for sample in lease.samples}))
        publish(registry, lease, data, PublishedMetadata("a" * 64, labels, len(lease.samples), {}))
    return True


def is_done(database: Database) -> bool:
    with database.read_transaction() as session:
        untrained = exists().where(Shard.id.not_in(select(Prompt.shard_id)))
        return not session.scalar(select(untrained))


def run(seed: int) -> Story:
    """Keeps the crowd at its size, against all killing, until the first worker finds that nothing is left to do."""
    registry = registry_without_connections()
    chance = random.Random(seed)
    story = Story()
    crowd: set[int] = set()
    kills = 0
    is_over = False
    while crowd or not is_over:
        while not is_over and len(crowd) < WORKERS:
            crowd.add(fork(registry, chance.getrandbits(32)))
        if kills < KILLS and chance.random() < 0.2:
            os.kill(chance.choice(sorted(crowd)), signal.SIGKILL)
            kills += 1
        time.sleep(POLL_SECONDS)
        while crowd and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            crowd.remove(ended[0])
            code = os.waitstatus_to_exitcode(ended[1])
            story.killed += code == -signal.SIGKILL
            story.failed += code > 0
            is_over |= code >= 0
    return story


def fork(registry: Registry, seed: int) -> int:
    """A new worker's process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(registry, seed)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # nothing of the process that it was forked from may run
    return child


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(vars(run(int(sys.argv[1])))))
