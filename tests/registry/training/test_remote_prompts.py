"""A prompt that was trained elsewhere comes without its pictures, as a shard of its own."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, select

from registry import failpoints
from registry.access.caller import OPERATOR
from registry.db.models.catalog import Shard
from registry.db.models.log import LogEntry
from registry.db.models.prompts import Prompt
from registry.db.models.users import Grant
from registry.db.models.write_claims import WriteClaim
from registry.errors import Invalid, NotFound
from registry.registry import Registry
from registry.training.publish import TaskBackboneMismatch, publish, publish_remote
from registry.training.queue import lease_next_shard
from tests.registry.training.fixtures import (
    METADATA,
    REFUSALS,
    add_shard,
    add_source,
    lease_one,
    list_keys,
    user_with_right,
)


def assert_nothing_is_left(registry: Registry) -> None:
    assert list_keys(registry) == []
    assert registry.scratch.sweep() == set()
    with registry.database.read_transaction() as session:
        for table in (Prompt, WriteClaim, Shard):
            assert session.scalars(select(table)).all() == []


def test_each_remote_prompt_is_a_shard_that_nobody_trains(registry: Registry) -> None:
    source = add_source(registry.database)

    prompts = [publish_remote(registry, OPERATOR, source.id, body, METADATA) for body in (b"one", b"two")]

    with registry.database.read_transaction() as session:
        shards = session.scalars(select(Shard).order_by(Shard.number)).all()
        assert session.scalars(select(WriteClaim)).all() == []
    assert [(shard.id, shard.number, shard.is_remote, shard.generation) for shard in shards] == [
        (prompt.shard_id, number, True, 1) for number, prompt in enumerate(prompts)
    ]
    assert [registry.objects.read(prompt.key, prompt.digest) for prompt in prompts] == [b"one", b"two"]
    assert lease_next_shard(registry, "ann") is None


def test_a_remote_prompt_must_have_the_backbone_of_its_task(registry: Registry) -> None:
    source = add_source(registry.database)
    add_shard(registry.database, source)
    local = publish(registry, lease_one(registry), b"local", METADATA)

    with pytest.raises(TaskBackboneMismatch):
        publish_remote(registry, OPERATOR, source.id, b"remote", replace(METADATA, identity="b" * 64))

    assert list_keys(registry) == [local.key]


def test_a_remote_prompt_that_fits_no_task_is_refused(registry: Registry) -> None:
    source = add_source(registry.database)

    for facts in (replace(METADATA, extra={"settings": {"attention": "full"}}), replace(METADATA, samples=2**31)):
        with pytest.raises(Invalid):
            publish_remote(registry, OPERATOR, source.id, b"numbers", facts)

    assert_nothing_is_left(registry)


def test_a_remote_prompt_needs_the_right_to_manage(registry: Registry) -> None:
    source = add_source(registry.database)

    for right, refusal in REFUSALS.items():
        with pytest.raises(refusal):
            publish_remote(registry, user_with_right(registry, source, right), source.id, b"numbers", METADATA)

    assert_nothing_is_left(registry)


def test_a_right_that_is_revoked_meanwhile_refuses_the_upload(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(registry.database)
    caller = user_with_right(registry, source, "manage")

    def revoke(point: str) -> None:
        if point == "publish: object written":
            with registry.database.write_transaction() as session:
                session.execute(delete(Grant).where(Grant.user_id == caller.user_id))

    monkeypatch.setattr(failpoints, "on_hit", revoke)

    with pytest.raises(NotFound):
        publish_remote(registry, caller, source.id, b"numbers", METADATA)

    assert_nothing_is_left(registry)


def test_a_remote_prompt_that_is_sent_twice_is_published_once_and_logged_with_its_sender(registry: Registry) -> None:
    source = add_source(registry.database)
    caller = user_with_right(registry, source, "manage")
    first = publish_remote(registry, caller, source.id, b"numbers", METADATA)

    again = publish_remote(registry, caller, source.id, b"numbers", METADATA)

    assert again.id == first.id
    assert list_keys(registry) == [first.key]
    with registry.database.read_transaction() as session:
        assert len(session.scalars(select(Shard)).all()) == 1
        assert session.scalars(select(WriteClaim)).all() == []
        [line] = session.scalars(select(LogEntry).where(LogEntry.action == "prompt.published"))
    assert line.actor == caller.user_id
    assert line.subject["prompt"] == str(first.id)
