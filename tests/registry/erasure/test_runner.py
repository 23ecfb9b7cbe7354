"""An erasure is carried out to the end, whatever fails on the way, and touches nothing else."""

from pathlib import Path

import pytest
from sqlalchemy import update

from registry import failpoints
from registry.db.clock import now
from registry.db.models.erasures import Erasure
from registry.erasure import steps
from registry.erasure.request import forget_sample, forget_shard, forget_source
from registry.erasure.runner import finish_erasure, run_erasures
from registry.erasure.target import target_of
from registry.registry import Registry
from registry.storage.keys import prompts_prefix, sample_key, source_prefix
from tests.registry.crash.search_bytes import find_bytes
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import (
    FORGET,
    SimulatedKill,
    count_target_rows,
    killed_at,
    list_keys,
    list_served_shards,
    list_shard_keys,
    read_shard,
    read_source,
    seed_source,
    with_failing_store,
)
from tests.registry.factories import run_at_once
from tests.servers.processes import wait_until

DEATHS = [point for point in failpoints.FAILPOINTS if point.startswith("erasure: ")]


def make_due(registry: Registry) -> None:
    with registry.database.write_transaction() as session:
        session.execute(update(Erasure).values(not_before=now()))


def count_left(registry: Registry, erasure: Erasure) -> tuple[list[str], dict[str, int]]:
    """All keys and rows of what was to be forgotten."""
    keys = [key for prefix in erasure.prefixes for key in list_keys(registry, prefix)]
    return keys, count_target_rows(registry, target_of(erasure))


@pytest.mark.parametrize("scope", FORGET)
def test_nothing_is_left_and_nothing_else_is_touched(registry: Registry, scope: str) -> None:
    seeded, other = seed_source(registry), seed_source(registry)
    before = count_target_rows(registry, other.target), list_keys(registry, source_prefix(other.source))
    erasure = FORGET[scope](registry, seeded)
    assert count_left(registry, erasure)[0] != []

    assert run_erasures(registry) == 1

    assert count_left(registry, erasure) == ([], {})
    progress = finish_erasure(registry, erasure.id)
    assert progress.state == "complete"
    assert [step.name for step in progress.steps] == list(steps.STEPS)
    assert all(step.done_at is not None and step.error is None for step in progress.steps)
    assert (count_target_rows(registry, other.target), list_keys(registry, source_prefix(other.source))) == before
    assert run_erasures(registry) == 0


def test_a_forgotten_shard_leaves_the_others_as_they_were(registry: Registry) -> None:
    seeded = seed_source(registry)
    gone, remaining = seeded.shards
    before = list_shard_keys(registry, seeded, remaining)

    finish_erasure(registry, forget_shard(registry, seeded.owner, seeded.source, gone).id)

    assert read_shard(registry, gone) is None
    assert list_shard_keys(registry, seeded, gone) == []
    assert list_shard_keys(registry, seeded, remaining) == before
    assert list_served_shards(registry, seeded) == [remaining]


def test_a_forgotten_sample_leaves_the_other_pictures_of_its_shard(registry: Registry) -> None:
    seeded = seed_source(registry, samples=3)
    shard, (gone, *remaining) = seeded.first_shard, seeded.shards[seeded.first_shard]

    finish_erasure(registry, forget_sample(registry, seeded.owner, seeded.source, gone).id)

    assert list_shard_keys(registry, seeded, shard) == sorted(
        sample_key(seeded.source, shard, digest) for digest in remaining
    )
    assert read_shard(registry, shard) is not None


@sqlite_only
def test_a_prompt_of_the_next_generation_outlives_the_erasure(registry: Registry) -> None:
    seeded = seed_source(registry)
    erasure = forget_sample(registry, seeded.owner, seeded.source, seeded.first_sample)
    key = f"{prompts_prefix(seeded.source, seeded.first_shard, 2)}{erasure.id}.safetensors"
    registry.objects.put(key, b"trained without it")

    finish_erasure(registry, erasure.id)

    assert key in list_keys(registry)


def test_the_steps_count_what_they_removed(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "BATCH", 3)
    seeded = seed_source(registry, shards=2, samples=4)
    size_bytes = sum(found.size_bytes for found in registry.objects.list_all("sources/"))

    progress = finish_erasure(registry, forget_source(registry, seeded.owner, seeded.source).id)

    found = {step.name: step.found for step in progress.steps}
    assert found["unserve"] == {"prompts": 2, "pinned": 2, "grants": 1}
    assert found["objects"] | {"keys": "", "store": ""} == {"objects": 10, "bytes": size_bytes, "keys": "", "store": ""}
    assert found["rows"] == {"samples": 8, "shards": 2, "sources": 1}
    assert found["verify"] == {}


@pytest.mark.parametrize(
    ("backend", "scope"),
    [("sqlite-folder", "source"), ("sqlite-folder", "shard"), ("sqlite-folder", "sample"), ("postgres-s3", "source")],
    indirect=["backend"],
)
@pytest.mark.parametrize("point", DEATHS)
def test_an_erasure_completes_after_a_kill_at_any_failpoint(registry: Registry, scope: str, point: str) -> None:
    seeded = seed_source(registry)
    keys = len(list_keys(registry))
    with killed_at(point), pytest.raises(SimulatedKill):
        finish_erasure(registry, FORGET[scope](registry, seeded).id)
    assert seeded.first_shard not in list_served_shards(registry, seeded)
    with registry.database.read_transaction() as session:
        erasure = session.query(Erasure).one()
    if point == "erasure: half the objects":
        assert 0 < len(count_left(registry, erasure)[0]) < keys

    progress = finish_erasure(registry, erasure.id)

    assert progress.state == "complete"
    assert count_left(registry, erasure) == ([], {})
    assert {step.name: step.found for step in progress.steps}["objects"]["objects"] == {
        "source": 6,
        "shard": 3,
        "sample": 2,
    }[scope]


def test_a_failing_store_is_retried_later(registry: Registry) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    broken = with_failing_store(registry, failures=1)

    assert run_erasures(broken) == 0

    assert run_erasures(broken) == 0  # not due yet
    waiting = finish_erasure(with_failing_store(registry, failures=1), erasure.id)
    assert waiting.waits_for == ("objects: the store does not answer",)
    assert waiting.steps[1].attempts == 2
    assert read_source(registry, seeded) is None  # rows did not wait for the store
    make_due(registry)
    assert run_erasures(broken) == 1
    assert list_keys(registry) == []


@sqlite_only
def test_an_unexpected_error_is_recorded_without_its_message(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)

    def fail(*_: object) -> None:
        raise RuntimeError("a name of somebody")

    monkeypatch.setitem(steps.STEPS, "rows", fail)
    assert finish_erasure(registry, erasure.id).waits_for == ("rows: failed unexpectedly (RuntimeError)",)


@sqlite_only
def test_the_verify_step_removes_what_a_late_writer_left(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    key = sample_key(seeded.source, seeded.first_shard, "ab" * 32)

    def write_late(point: str) -> None:
        if point == "erasure: rows removed":
            registry.objects.put(key, b"late")

    monkeypatch.setattr(failpoints, "on_hit", write_late)
    progress = finish_erasure(registry, erasure.id)

    assert progress.state == "complete"
    assert progress.steps[-1].found == {"late": 1}
    assert list_keys(registry, source_prefix(seeded.source)) == []


def test_two_runners_of_the_same_erasure_do_no_harm(registry: Registry) -> None:
    seeded = seed_source(registry, shards=3, samples=3)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    run_at_once(*[lambda: finish_erasure(registry, erasure.id, timeout=20)] * 3)

    progress = finish_erasure(registry, erasure.id)
    assert progress.state == "complete"
    found = {step.name: step.found for step in progress.steps}
    assert found["rows"] == {"samples": 9, "shards": 3, "sources": 1}
    assert found["objects"]["objects"] == 12


def test_each_due_erasure_is_claimed_by_one_runner_and_none_after_it_should_stop(registry: Registry) -> None:
    seeded = [seed_source(registry, shards=1, samples=1) for _ in range(4)]
    for one in seeded:
        forget_source(registry, one.owner, one.source)

    is_over = iter([False, True])
    assert run_erasures(registry, lambda: next(is_over)) == 1
    counts: list[int] = run_at_once(*[lambda: run_erasures(registry)] * 2)

    def run_again() -> bool:  # one may have been in the other's way: then a step is tried again later
        counts.append(run_erasures(registry))
        return sum(counts) >= 3

    wait_until(run_again, "all are complete")

    assert sum(counts) == 3
    assert list_keys(registry) == []


def test_a_source_can_be_forgotten_while_its_shard_and_sample_are(registry: Registry) -> None:
    seeded = seed_source(registry, shards=3)
    first, second, _ = seeded.shards
    forget_shard(registry, seeded.owner, seeded.source, first)
    forget_sample(registry, seeded.owner, seeded.source, seeded.shards[second][0])
    forget_source(registry, seeded.owner, seeded.source)

    assert run_erasures(registry) == 3
    assert read_source(registry, seeded) is None
    assert list_keys(registry) == []
    assert count_target_rows(registry, seeded.target) == {}


@sqlite_only
@pytest.mark.parametrize("scope", ["source", "shard"])
def test_no_byte_of_names_labels_or_pictures_is_left_in_any_file(
    registry: Registry, tmp_path: Path, scope: str
) -> None:
    seeded = seed_source(registry, name="the album of Ada", samples=50)
    other = seed_source(registry)
    texts = [f"label of {seeded.source}".encode()]
    texts += [f"picture {number} of {seeded.first_shard}".encode() for number in range(50)]
    texts += [digest.encode() for digest in seeded.shards[seeded.first_shard]]
    texts += [b"the album of Ada"] if scope == "source" else []
    assert {needle for _, needle in find_bytes(texts, tmp_path)} == set(texts)

    progress = finish_erasure(registry, FORGET[scope](registry, seeded).id)

    assert progress.state == "complete"
    if scope == "shard":  # the other shard has the same label
        texts.pop(0)
    assert find_bytes(texts, tmp_path) == []
    assert find_bytes([f"label of {other.source}".encode()], tmp_path) != []


@sqlite_only
def test_the_rows_step_waits_for_a_reader_that_prevents_the_vacuum(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)
    monkeypatch.setattr(steps, "vacuum", lambda _: False)
    assert "reader keeps deleted rows in the database" in finish_erasure(registry, erasure.id).waits_for[0]
    monkeypatch.undo()

    assert finish_erasure(registry, erasure.id).state == "complete"
