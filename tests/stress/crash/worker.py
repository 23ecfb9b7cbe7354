"""`alacarte work` for crash runs: it keeps a copy of every prompt before it is published, with what it learnt from.

Nothing of the product knows of this. So what any answer should have been can be told long after its prompts were
forgotten. Called as `python -m tests.stress.crash.worker FOLDER`, with the settings of a worker in its environment.
"""

import sys
from pathlib import Path

from alacarte.cli.commands.work import work
from registry.db.models.prompts import Prompt
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import PublishedFacts, publish
from tests.stress.crash.train_copies import keep_copy
from trainer.worker import job


def keep_and_publish(registry: Registry, lease: Lease, data: bytes, facts: PublishedFacts) -> Prompt:
    """The prompt, published, and copied before anybody could be answered by it."""
    keep_copy(Path(sys.argv[1]), lease, data)
    return publish(registry, lease, data, facts)


if __name__ == "__main__":
    assert vars(job)["publish"] is publish
    job.publish = keep_and_publish  # type: ignore[attr-defined]  # where an attempt looks for it
    work(weights="random", poll=0.2, cache_gb=0)
