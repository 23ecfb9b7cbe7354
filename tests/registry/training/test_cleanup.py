"""Clean-up after workers: dead ones leave nothing behind, and live ones lose nothing."""

from uuid import UUID

import pytest

from registry.db.models.write_claims import WriteClaim
from registry.errors import LeaseLost
from registry.ids import new_id
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.scratch import ScratchSpace
from registry.training.lease import renew_lease
from registry.training.publish import publish
from registry.training.queue import lease_next_shard
from tests.registry.training.fixtures import METADATA, add_shard, expire_lease, lease_new_shard, read_claim


def clean_up(registry: Registry) -> None:
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)


def test_a_dead_workers_object_and_claim_are_removed(registry: Registry) -> None:
    lease = lease_new_shard(registry)
    registry.objects.put(lease.prompt_key, b"numbers")
    expire_lease(registry.database, lease)

    clean_up(registry)

    assert list(registry.objects.list_all("sources/")) == []
    assert read_claim(registry.database, lease) is None


def test_a_published_object_stays_when_its_worker_dies_before_releasing_its_claim(registry: Registry) -> None:
    lease = lease_new_shard(registry)
    prompt = publish(registry, lease, b"numbers", METADATA)
    expire_lease(registry.database, lease)

    clean_up(registry)

    assert registry.objects.read(prompt.key, prompt.digest) == b"numbers"
    assert read_claim(registry.database, lease) is None


def test_an_expired_claim_of_a_live_process_stays_until_its_scratch_folder_is_gone(registry: Registry) -> None:
    add_shard(registry.database)
    lease_id = new_id()
    with registry.scratch.job_folder(lease_id):
        lease = lease_next_shard(registry, "ann", lease_id=lease_id)
        assert lease is not None
        expire_lease(registry.database, lease)
        clean_up(registry)
        registry.objects.put(lease.prompt_key, b"written all the same")
        with pytest.raises(LeaseLost):
            renew_lease(registry.database, lease, progress=0.5)
        late = read_claim(registry.database, lease)
        assert late is not None
        assert late.prefixes == [lease.prompt_key]

    clean_up(registry)

    assert list(registry.objects.list_all("sources/")) == []
    assert read_claim(registry.database, lease) is None


def test_a_scratch_folder_that_is_made_during_the_sweep_keeps_its_claim(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_shard(registry.database)
    lease_id = new_id()
    sweep = ScratchSpace.sweep

    def sweep_and_then_lease(home: ScratchSpace) -> set[UUID]:
        living = sweep(home)
        assert lease_next_shard(registry, "ann", lease_id=lease_id) is not None
        return living

    monkeypatch.setattr(ScratchSpace, "sweep", sweep_and_then_lease)

    clean_up(registry)

    with registry.database.read_transaction() as session:
        claim = session.get_one(WriteClaim, lease_id)
    assert claim.scratch_id == registry.scratch.id
