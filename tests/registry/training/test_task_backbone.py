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
    METADATA,
    add_shard,
    add_source,
    add_task,
    lease_one,
    list_keys,
    list_prompts,
)


def test_the_first_prompt_sets_the_backbone_of_its_task(registry: Registry) -> None:
    source = add_source(registry.database)
    for _ in range(3):
        add_shard(registry.database, source)
    publish(registry, lease_one(registry), b"one", METADATA)

    publish(registry, lease_one(registry), b"two", METADATA)
    with pytest.raises(TaskBackboneMismatch):
        publish(registry, lease_one(registry), b"three", replace(METADATA, identity="b" * 64))

    with registry.database.read_transaction() as session:
        assert session.get_one(Task, source.task_id).identity == METADATA.identity
    assert len(list_keys(registry)) == len(list_prompts(registry.database)) == 2


def test_of_two_first_prompts_at_once_one_sets_the_backbone(registry: Registry) -> None:
    task = add_task(registry.database)
    for _ in range(2):
        add_shard(registry.database, add_source(registry.database, task))
    leases = [lease_one(registry), lease_one(registry)]
    together = threading.Barrier(2)

    def run(lease: Lease, identity: str) -> str:
        together.wait()
        try:
            publish(registry, lease, identity.encode(), replace(METADATA, identity=identity))
        except TaskBackboneMismatch:
            return "refused"
        return identity

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(run, leases, ["a" * 64, "b" * 64]))

    assert outcomes.count("refused") == 1
    with registry.database.read_transaction() as session:
        assert session.get_one(Task, task.id).identity in outcomes


UNFIT: dict[str, tuple[PublishedMetadata, type[DomainError]]] = {
    "a label that the task has not": (replace(METADATA, labels=("cat", "zebra")), Conflict),
    "no label": (replace(METADATA, labels=()), Invalid),
    "more samples than its shard": (replace(METADATA, samples=3), Invalid),
    "no samples": (replace(METADATA, samples=0), Invalid),
    "full attention": (replace(METADATA, extra={"settings": {"attention": "full"}}), Invalid),
    "full attention, outside the settings": (replace(METADATA, extra={"attention": "full"}), Invalid),
}


def test_a_prompt_that_does_not_fit_is_refused(registry: Registry) -> None:
    task = add_task(registry.database, labels=["cat", "dog", "horse"])
    add_shard(registry.database, add_source(registry.database, task))
    lease = lease_one(registry)

    for fault, (metadata, refusal) in UNFIT.items():
        with pytest.raises(refusal):
            publish(registry, lease, b"numbers", metadata)

        assert list_keys(registry) == [], fault
        assert list_prompts(registry.database) == [], fault
    with registry.database.read_transaction() as session:
        assert session.get_one(Task, task.id).identity is None
