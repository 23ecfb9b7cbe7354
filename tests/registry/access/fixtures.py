"""Fill a registry with many users, groups, grants and prompts, by bulk inserts."""

import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from registry.access.caller import OPERATOR
from registry.access.tokens import PREFIX_ALPHABET, PREFIX_LENGTH, parse_token
from registry.catalog.releases import pin_release
from registry.catalog.tasks import create_task
from registry.db.database import Database
from registry.db.models.catalog import Shard, Source
from registry.db.models.prompts import Prompt
from registry.db.models.users import Grant, Membership, Token, User
from registry.ids import new_id
from registry.storage.keys import prompt_key

PROMPTS = 5  # a source
MEMBERS = 100  # a group
RETURNED_TOKENS = 200
TASK = "flowers"
RELEASE = "spring"
MADE = datetime(2025, 1, 1, tzinfo=UTC)

Rows = list[dict[str, Any]]  # Any: values of columns


def seed(database: Database, sources: int, users: int, grants: int = 20) -> dict[str, list[UUID]]:
    """Fill the tables; return some tokens, each with the sources that were granted to its user directly."""
    rng = random.Random(0)
    with database.write_transaction() as session:
        task = create_task(session, OPERATOR, TASK, backbone="vit_tiny_patch16_224", labels=_labels(100))
        user_ids = [new_id() for _ in range(users)]
        groups = [new_id() for _ in range(max(1, users // MEMBERS))]
        session.execute(insert(User), [*_users(user_ids, is_group=False), *_users(groups, is_group=True)])
        source_ids = _seed_sources(session, task.id, [rng.choice(user_ids) for _ in range(sources)])
        session.execute(
            insert(Membership), [{"group_id": rng.choice(groups), "member_id": user} for user in user_ids[::2]]
        )
        granted = {holder: rng.sample(source_ids, grants) for holder in (*user_ids, *groups)}
        session.execute(insert(Grant), [_grant(holder, source) for holder in granted for source in granted[holder]])
        pin_release(session, OPERATOR, task.id, RELEASE)
        texts = {user: _text(rng) for user in user_ids}
        session.execute(insert(Token), [_token(user, texts[user]) for user in user_ids])
        session.execute(text("ANALYZE"))
    return {texts[user]: granted[user] for user in rng.sample(user_ids, min(RETURNED_TOKENS, users))}


def _seed_sources(session: Session, task_id: UUID, owners: list[UUID]) -> list[UUID]:
    ids = [new_id() for _ in owners]
    sources: Rows = [
        {
            "id": source,
            "task_id": task_id,
            "owner_id": owner,
            "name": f"source {number}",
            "key": b"k",
            "created_at": MADE,
        }
        for number, (source, owner) in enumerate(zip(ids, owners, strict=True))
    ]
    session.execute(insert(Source), sources)
    shards: Rows = [_shard(source, number) for source in ids for number in range(PROMPTS)]
    session.execute(insert(Shard), shards)
    session.execute(insert(Prompt), [_prompt(task_id, shard) for shard in shards])
    return ids


def _text(rng: random.Random) -> str:
    prefix, secret = (rng.choices(PREFIX_ALPHABET, k=length) for length in (PREFIX_LENGTH, 43))
    return f"alc_{''.join(prefix)}_{''.join(secret)}"


def _token(user: UUID, text: str) -> dict[str, Any]:
    credential = parse_token(text)
    return {
        "id": new_id(),
        "user_id": user,
        "prefix": credential.prefix,
        "hash": credential.hash,
        "note": "",
        "created_at": MADE,
    }


def _labels(count: int) -> list[str]:
    return [f"label {number}" for number in range(count)]


def _users(ids: list[UUID], *, is_group: bool) -> Rows:
    return [
        {"id": user, "name": f"user {user}", "role": "predictor", "is_group": is_group, "created_at": MADE}
        for user in ids
    ]


def _grant(holder: UUID, source: UUID) -> dict[str, Any]:
    return {"id": new_id(), "user_id": holder, "source_id": source, "right": "use", "granted_at": MADE}


def _shard(source: UUID, number: int) -> dict[str, Any]:
    return {
        "id": new_id(),
        "source_id": source,
        "number": number,
        "generation": 1,
        "seed": 0,
        "is_remote": False,
        "priority": 0,
        "attempts": 0,
        "is_paused": False,
    }


def _prompt(task_id: UUID, shard: dict[str, Any]) -> dict[str, Any]:
    prompt = new_id()
    return {
        "id": prompt,
        "shard_id": shard["id"],
        "source_id": shard["source_id"],
        "task_id": task_id,
        "generation": 1,
        "key": prompt_key(shard["source_id"], shard["id"], 1, prompt),
        "digest": "0" * 64,
        "size_bytes": 100_000,
        "labels": [],
        "samples": 100,
        "artifact_metadata": {},
        "worker": "bench",
        "published_at": MADE,
    }
