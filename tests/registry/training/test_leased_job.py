"""Whatever happens in an attempt, its files and its nameless object are gone afterwards, and its shard is free."""

from pathlib import Path

import pytest

from registry.errors import LeaseLost
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.registry.training.fixtures import FACTS, add_shard, expire, holding_now, shard_now, take


def run(registry: Registry, error: BaseException) -> tuple[Lease, Path]:
    """An attempt that writes a file and an object, and is left by the error."""
    seen: list[tuple[Lease, Path]] = []
    with pytest.raises(type(error)), lease_shard(registry, "ann") as work:
        assert work is not None
        seen.append(work)
        lease, room = work
        (room / "picture").write_bytes(b"picture")
        registry.objects.put(lease.prompt_key, b"prompt")
        raise error
    return seen[0]


def assert_nothing_is_left(registry: Registry, lease: Lease, room: Path) -> None:
    assert not room.exists()
    assert list(registry.objects.list_all("sources/")) == []
    assert holding_now(registry.database, lease) is None


def test_no_work_is_none_and_leaves_no_room(registry: Registry) -> None:
    with lease_shard(registry, "ann") as work:
        assert work is None

    assert registry.scratch.sweep() == set()


def test_an_error_is_the_failure_of_the_attempt(registry: Registry) -> None:
    add_shard(registry.database)

    lease, room = run(registry, ValueError("the pictures are grey"))

    shard = shard_now(registry.database, lease.shard_id)
    assert (shard.error, shard.attempts, shard.lease_id) == ("the pictures are grey", 1, None)
    assert shard.not_before is not None
    assert_nothing_is_left(registry, lease, room)


def test_an_error_without_words_is_told_by_its_name(registry: Registry) -> None:
    add_shard(registry.database)

    lease, _ = run(registry, MemoryError())

    assert shard_now(registry.database, lease.shard_id).error == "MemoryError"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_worker_that_is_stopped_gives_the_shard_back(registry: Registry, stop: type[BaseException]) -> None:
    add_shard(registry.database)

    lease, room = run(registry, stop())

    shard = shard_now(registry.database, lease.shard_id)
    assert (shard.error, shard.attempts, shard.lease_id, shard.not_before) == (None, 0, None, None)
    assert_nothing_is_left(registry, lease, room)


def test_a_block_that_publishes_nothing_gives_the_shard_back(registry: Registry) -> None:
    add_shard(registry.database)

    with lease_shard(registry, "ann") as work:
        assert work is not None

    assert shard_now(registry.database, work[0].shard_id).attempts == 0
    assert_nothing_is_left(registry, *work)


def test_who_lost_the_lease_leaves_the_next_worker_alone(registry: Registry) -> None:
    add_shard(registry.database)

    seen: list[tuple[Lease, Path]] = []
    with pytest.raises(LeaseLost), lease_shard(registry, "ann") as work:
        assert work is not None
        seen.append(work)
        expire(registry.database, work[0])
        take(registry, "bob")
        publish(registry, work[0], b"prompt", FACTS)

    [(lost, room)] = seen
    assert shard_now(registry.database, lost.shard_id).worker == "bob"
    assert_nothing_is_left(registry, lost, room)


def test_what_was_published_stays(registry: Registry) -> None:
    add_shard(registry.database)

    with lease_shard(registry, "ann") as work:
        assert work is not None
        prompt = publish(registry, work[0], b"prompt", FACTS)

    assert registry.objects.read(prompt.key, prompt.digest) == b"prompt"
    assert not work[1].exists()
    assert holding_now(registry.database, work[0]) is None


def test_a_room_that_cannot_be_wiped_stays_on_record(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    add_shard(registry.database)
    with monkeypatch.context() as patch:
        patch.setattr("registry.storage.scratch.shutil.rmtree", refuse)
        lease, room = run(registry, PermissionError("a file is busy"))

    claim = holding_now(registry.database, lease)
    assert room.exists()
    assert claim is not None
    assert (claim.scratch_id, claim.prefixes) == (registry.scratch.id, [lease.prompt_key])


def refuse(*_: object) -> None:
    raise PermissionError("a file is busy")
