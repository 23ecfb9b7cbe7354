"""`alacarte work` for crash runs: it keeps a copy of every prompt before it is published, with what it learnt from.

Nothing of the product knows of this. So what any answer should have been can be told long after its prompts were
forgotten. Called as `python -m tests.fire.crashing.worker FOLDER`, with the settings of a worker in its environment.
"""

import sys
from pathlib import Path

from alacarte.cli.work import work
from registry.leasing import Lease
from registry.models.prompts import Prompt
from registry.publishing import PublishedFacts, publish
from registry.registry import Registry
from tests.fire.crashing.copies import keep_copy
from trainer.worker import attempt


def keep_and_publish(registry: Registry, lease: Lease, data: bytes, facts: PublishedFacts) -> Prompt:
    """The prompt, published, and copied before anybody could be answered by it."""
    keep_copy(Path(sys.argv[1]), lease, data)
    return publish(registry, lease, data, facts)


if __name__ == "__main__":
    assert vars(attempt)["publish"] is publish
    attempt.publish = keep_and_publish  # type: ignore[attr-defined]  # where an attempt looks for it
    work(weights="random", poll=0.2, cache_gb=0)
