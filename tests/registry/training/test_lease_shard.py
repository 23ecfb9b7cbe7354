"""Whatever happens in an attempt, its files and its unpublished object are gone afterwards, and its shard is free."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from registry.errors import LeaseLost
from registry.registry import Registry
from registry.training.lease import Lease
from registry.training.publish import publish
from registry.training.queue import lease_shard
from tests.registry.training.fixtures import METADATA, add_shard, expire_lease, lease_one, read_claim, read_shard


def run(registry: Registry, error: BaseException) -> tuple[Lease, Path]:
    """An attempt that writes a file and an object, and is left by the error."""
    leases: list[tuple[Lease, Path]] = []
    with pytest.raises(type(error)), lease_shard(registry, "ann") as work:
        assert work is not None
        leases.append(work)
        lease, folder = work
        (folder / "picture").write_bytes(b"picture")
        registry.objects.put(lease.prompt_key, b"prompt")
        raise error
    return leases[0]


def assert_nothing_is_left(registry: Registry, lease: Lease, folder: Path) -> None:
    assert not folder.exists()
    assert list(registry.objects.list_all("sources/")) == []
    assert read_claim(registry.database, lease) is None


def test_without_a_due_shard_there_is_no_lease_and_no_scratch_folder(registry: Registry) -> None:
    with lease_shard(registry, "ann") as work:
        assert work is None

    assert registry.scratch.sweep() == set()


@pytest.mark.parametrize(
    ("error", "message"),
    [(ValueError("the pictures are grey"), "the pictures are grey"), (MemoryError(), "MemoryError")],
)
def test_an_error_is_the_failure_of_the_attempt(registry: Registry, error: Exception, message: str) -> None:
    add_shard(registry.database)

    lease, folder = run(registry, error)

    shard = read_shard(registry.database, lease.shard_id)
    assert (shard.error, shard.attempts, shard.lease_id) == (message, 1, None)
    assert shard.not_before is not None
    assert_nothing_is_left(registry, lease, folder)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_worker_that_is_stopped_gives_the_shard_back(registry: Registry, stop: type[BaseException]) -> None:
    add_shard(registry.database)

    lease, folder = run(registry, stop())

    shard = read_shard(registry.database, lease.shard_id)
    assert (shard.error, shard.attempts, shard.lease_id, shard.not_before) == (None, 0, None, None)
    assert_nothing_is_left(registry, lease, folder)


def test_a_block_that_publishes_nothing_gives_the_shard_back(registry: Registry) -> None:
    add_shard(registry.database)

    with lease_shard(registry, "ann") as work:
        assert work is not None

    assert read_shard(registry.database, work[0].shard_id).attempts == 0
    assert_nothing_is_left(registry, *work)


def test_a_worker_that_lost_its_lease_does_not_disturb_the_next(registry: Registry) -> None:
    add_shard(registry.database)

    leases: list[tuple[Lease, Path]] = []
    with pytest.raises(LeaseLost), lease_shard(registry, "ann") as work:
        assert work is not None
        leases.append(work)
        expire_lease(registry.database, work[0])
        lease_one(registry, "bob")
        publish(registry, work[0], b"prompt", METADATA)

    [(lost, folder)] = leases
    assert read_shard(registry.database, lost.shard_id).worker == "bob"
    assert_nothing_is_left(registry, lost, folder)


def test_a_published_prompt_stays(registry: Registry) -> None:
    add_shard(registry.database)

    with lease_shard(registry, "ann") as work:
        assert work is not None
        prompt = publish(registry, work[0], b"prompt", METADATA)

    assert registry.objects.read(prompt.key, prompt.digest) == b"prompt"
    assert not work[1].exists()
    assert read_claim(registry.database, work[0]) is None


def test_a_claim_stays_while_its_scratch_folder_cannot_be_removed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_shard(registry.database)
    with monkeypatch.context() as patch:
        patch.setattr("registry.storage.scratch.shutil.rmtree", Mock(side_effect=PermissionError("a file is busy")))
        lease, folder = run(registry, PermissionError("a file is busy"))

    claim = read_claim(registry.database, lease)
    assert folder.exists()
    assert claim is not None
    assert (claim.scratch_id, claim.prefixes) == (registry.scratch.id, [lease.prompt_key])
