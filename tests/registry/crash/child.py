"""A process that runs one action on the registry, and kills itself at a failpoint."""

import os
import signal
from pathlib import Path
from uuid import UUID

from registry import failpoints
from registry.access.caller import OPERATOR
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.erasure.runner import finish_erasure
from registry.ingest.upload import add_samples, upload_source
from registry.registry import Registry, open_registry
from registry.settings import load_registry_settings
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard

METADATA = PublishedMetadata(identity="1d" * 32, labels=("cat", "dog"), samples=1, extra={"seed": 7})
PROMPT = b"the bytes of a trained prompt " * 75


def upload(registry: Registry, task: str, name: str, pictures: str) -> None:
    upload_source(registry, OPERATOR, UUID(task), name, Path(pictures), shards=2)


def add_pictures(registry: Registry, source: str, pictures: str) -> None:
    add_samples(registry, OPERATOR, UUID(source), Path(pictures), shards=2)


def train(registry: Registry) -> None:
    with lease_shard(registry, "killed worker") as leased:
        assert leased is not None
        lease, folder = leased
        for sample in lease.samples:
            registry.objects.download(sample.key, sample.digest, folder / sample.digest)
        publish(registry, lease, PROMPT + lease.id.bytes, METADATA)


def forget(registry: Registry, source: str, shard: str, sample: str) -> None:
    if sample:
        erasure = forget_sample(registry, OPERATOR, UUID(source), sample)
    elif shard:
        erasure = forget_shard(registry, OPERATOR, UUID(source), UUID(shard))
    else:
        erasure = forget_source(registry, OPERATOR, UUID(source))
    finish_erasure(registry, erasure.id)


ACTIONS = {"upload": upload, "add_pictures": add_pictures, "train": train, "forget": forget}


def main(environment: dict[str, str], action: str, point: str, *arguments: str) -> None:
    """Run the action until it hits the failpoint."""
    os.environ.update(environment)

    def kill_self(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.on_hit = kill_self
    ACTIONS[action](open_registry(load_registry_settings()), *arguments)  # type: ignore[operator]  # as many as the action takes
