"""A prompt is published only if it can be composed with the others of its task."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from registry.db.models.catalog import Task
from registry.errors import Conflict, DomainError, Invalid
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import PublishedMetadata, TaskBackboneMismatch, publish
from tests.registry.training.fixtures import (
    FACTS,
    add_shard,
    add_source,
    add_task,
    keys_of,
    prompts_of,
    take,
)


def test_the_first_prompt_settles_the_backbone_of_its_task(registry: Registry) -> None:
    source = add_source(registry.database)
    for _ in range(3):
        add_shard(registry.database, source)
    publish(registry, take(registry), b"one", FACTS)

    publish(registry, take(registry), b"two", FACTS)
    with pytest.raises(TaskBackboneMismatch):
        publish(registry, take(registry), b"three", replace(FACTS, identity="b" * 64))

    with registry.database.read_transaction() as session:
        assert session.get_one(Task, source.task_id).identity == FACTS.identity
    assert len(keys_of(registry)) == len(prompts_of(registry.database)) == 2


def test_of_two_first_prompts_at_once_one_settles_the_backbone(registry: Registry) -> None:
    task = add_task(registry.database)
    for _ in range(2):
        add_shard(registry.database, add_source(registry.database, task))
    leases = [take(registry), take(registry)]
    together = threading.Barrier(2)

    def run(lease: Lease, identity: str) -> str:
        together.wait()
        try:
            publish(registry, lease, identity.encode(), replace(FACTS, identity=identity))
        except TaskBackboneMismatch:
            return "refused"
        return identity

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, leases, ["a" * 64, "b" * 64]))

    assert outcomes.count("refused") == 1
    with registry.database.read_transaction() as session:
        assert session.get_one(Task, task.id).identity in outcomes


UNFIT: dict[str, tuple[PublishedMetadata, type[DomainError]]] = {
    "a label that the task has not": (replace(FACTS, labels=("cat", "zebra")), Conflict),
    "no label": (replace(FACTS, labels=()), Invalid),
    "more samples than its shard": (replace(FACTS, samples=3), Invalid),
    "no samples": (replace(FACTS, samples=0), Invalid),
    "full attention": (replace(FACTS, extra={"settings": {"attention": "full"}}), Invalid),
    "full attention, told outside the settings": (replace(FACTS, extra={"attention": "full"}), Invalid),
}


def test_a_prompt_that_does_not_fit_is_refused(registry: Registry) -> None:
    task = add_task(registry.database, labels=["cat", "dog", "horse"])
    add_shard(registry.database, add_source(registry.database, task))
    lease = take(registry)

    for fault, (facts, refusal) in UNFIT.items():
        with pytest.raises(refusal):
            publish(registry, lease, b"numbers", facts)

        assert keys_of(registry) == [], fault
        assert prompts_of(registry.database) == [], fault
    with registry.database.read_transaction() as session:
        assert session.get_one(Task, task.id).identity is None
