"""`alacarte work` for crash runs: keeps a copy of every prompt before it is published.

The copies make it possible to check any answer after its prompts were forgotten. The product has no hook for this: this
module patches it. Run it as `python -m tests.stress.crash.worker FOLDER`; settings come from the environment.
"""

import sys
from pathlib import Path

from alacarte.cli.commands.work import work
from registry.db.models.prompts import Prompt
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import PublishedMetadata, publish
from tests.stress.crash.train_copies import keep_copy
from trainer.worker import job


def keep_and_publish(registry: Registry, lease: Lease, data: bytes, metadata: PublishedMetadata) -> Prompt:
    keep_copy(Path(sys.argv[1]), lease, data)
    return publish(registry, lease, data, metadata)


if __name__ == "__main__":
    assert vars(job)["publish"] is publish
    job.publish = keep_and_publish  # type: ignore[attr-defined]  # the name that the job calls
    work(weights="random", poll=0.2, cache_gb=0)
