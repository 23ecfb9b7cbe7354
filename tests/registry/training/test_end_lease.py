"""A lease that ends makes its shard available to the next worker: at once, or after a back-off if it failed."""

from hypothesis import given
from hypothesis import strategies as st

from registry.db.clock import seconds_from_now
from registry.registry import Registry
from registry.training.lease import MAX_BACKOFF_SECONDS, MAX_ERROR_CHARS, backoff_seconds, end_lease
from registry.training.queue import lease_next_shard
from tests.registry.training.fixtures import (
    WAYS_TO_LOSE_A_LEASE,
    lease_new_shard,
    lease_one,
    read_shard,
    seconds_until,
    update_shard,
)


def test_a_failure_is_recorded_and_the_shard_waits(registry: Registry) -> None:
    lease = lease_new_shard(registry, attempts=2)

    end_lease(registry.database, lease, "out of\nmemory\x00 \ud800")

    shard = read_shard(registry.database, lease.shard_id)
    assert (shard.error, shard.lease_id, shard.worker, shard.progress) == ("out of memory", None, None, None)
    assert 10 < seconds_until(registry.database, shard.not_before) <= 20  # the third attempt; the second waits 10
    assert lease_next_shard(registry, "bob") is None
    long = lease_new_shard(registry)
    end_lease(registry.database, long, "é" * 2000)
    assert read_shard(registry.database, long.shard_id).error == "é" * (MAX_ERROR_CHARS - 1) + "…"


def test_a_failed_shard_is_due_again_after_its_back_off(registry: Registry) -> None:
    failed = lease_new_shard(registry)
    end_lease(registry.database, failed, "no")
    update_shard(registry.database, failed.shard_id, not_before=seconds_from_now(-1))

    lease = lease_one(registry)

    assert lease.shard_id == failed.shard_id
    assert read_shard(registry.database, lease.shard_id).attempts == 2


def test_a_returned_lease_does_not_count_as_an_attempt(registry: Registry) -> None:
    lease = lease_new_shard(registry, attempts=1, error="as before")

    end_lease(registry.database, lease)

    shard = read_shard(registry.database, lease.shard_id)
    assert (shard.attempts, shard.error, shard.not_before, shard.lease_id) == (1, "as before", None, None)
    assert lease_one(registry, "bob").shard_id == lease.shard_id


def test_ending_a_lost_lease_changes_nothing(registry: Registry) -> None:
    for loss in ("taken over", "cancelled", "of a forgotten source"):
        lease = lease_new_shard(registry)
        WAYS_TO_LOSE_A_LEASE[loss](registry, lease)
        before = read_shard(registry.database, lease.shard_id)

        end_lease(registry.database, lease, "late")
        end_lease(registry.database, lease)

        after = read_shard(registry.database, lease.shard_id)
        assert (after.lease_id, after.attempts) == (before.lease_id, before.attempts), loss
        assert after.error == before.error, loss


@given(st.integers(min_value=-5, max_value=10_000))
def test_the_back_off_doubles_up_to_an_hour(attempts: int) -> None:
    seconds = backoff_seconds(attempts)

    assert 5 <= seconds <= MAX_BACKOFF_SECONDS
    assert backoff_seconds(attempts + 1) == (5 if attempts < 1 else min(2 * seconds, MAX_BACKOFF_SECONDS))
