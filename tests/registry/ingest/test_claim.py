"""The write claim of an upload says what to clean up after a dead process, and an expired claim cannot commit."""

import pytest
from sqlalchemy import select, update

from registry.db.clock import seconds_from_now
from registry.db.models.write_claims import WriteClaim
from registry.errors import LeaseLost
from registry.storage import write_claims
from tests.registry.database_fixtures import sqlite_only
from tests.registry.ingest.fixtures import AtFailpoint, Uploader


def expire_claims(uploader: Uploader) -> None:
    """Expire all claims, as if no heartbeat had come for long."""
    with uploader.registry.database.write_transaction() as session:
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))


def clean_up_expired(uploader: Uploader) -> None:
    """Expire all claims, and clean up as another process does."""
    expire_claims(uploader)
    write_claims.clean_up_abandoned(uploader.registry.database, uploader.registry.objects, uploader.registry.scratch)


def test_an_expired_claim_cannot_commit(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    before = uploader.rows()
    at_failpoint(lambda: expire_claims(uploader))

    with pytest.raises(LeaseLost):
        uploader.upload(uploader.pictures(range(4)))

    assert uploader.rows() == before
    uploader.assert_tidy()


def test_an_upload_whose_claim_was_cleaned_up_removes_what_it_wrote_later(
    uploader: Uploader, at_failpoint: AtFailpoint
) -> None:
    at_failpoint(lambda: clean_up_expired(uploader), "upload: claimed")

    with pytest.raises(LeaseLost):
        uploader.upload(uploader.pictures(range(4)))

    assert uploader.rows()["sources"] == 0
    uploader.assert_tidy()


@sqlite_only
def test_a_claim_names_every_prefix_before_anything_is_written(uploader: Uploader, at_failpoint: AtFailpoint) -> None:
    claims_seen: list[tuple[list[str], bool]] = []

    def read_claim() -> None:
        with uploader.registry.database.read_transaction() as session:
            claim = session.scalars(select(WriteClaim)).one()
        claims_seen.append((claim.prefixes, claim.scratch_id == uploader.registry.scratch.id))

    at_failpoint(read_claim, "upload: claimed")

    result = uploader.upload(uploader.pictures(range(30)), shards=3)

    ((prefixes, is_here),) = claims_seen
    assert is_here
    found = [found.key for found in uploader.registry.objects.list_objects("sources/")]
    assert len(found) == result.samples
    assert all(key.startswith(tuple(prefixes)) for key in found)


def test_a_claim_that_is_cleaned_up_after_the_commit_loses_nothing(
    uploader: Uploader, at_failpoint: AtFailpoint
) -> None:
    at_failpoint(lambda: clean_up_expired(uploader), "upload: committed")

    assert uploader.upload(uploader.pictures(range(4)), shards=2).samples == 4

    assert uploader.rows()["samples"] == 4
    uploader.assert_tidy()
