"""Factories that insert one row each, with defaults for everything that a test does not set."""

import hashlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, cast
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alacarte.api.literals import Role
from registry.access.caller import Caller
from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source, Task
from registry.db.models.prompts import Prompt
from registry.db.models.users import Grant, User
from registry.ids import new_id
from registry.storage.keys import prompt_key

_numbers = count()


def run_at_once(*acts: Callable[[], Any]) -> list[Any]:  # Any: what each returns
    """Call all functions at the same moment, each in a thread of its own; return what they return."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def make_user(session: Session, name: str | None = None, role: Role = "predictor", *, is_group: bool = False) -> User:
    user = User(id=new_id(), name=name or f"user {next(_numbers)}", role=role, is_group=is_group, created_at=now())
    session.add(user)
    session.flush()
    return user


def make_grant(session: Session, user_id: UUID | None, source_id: UUID, right: str) -> None:
    session.add(Grant(id=new_id(), user_id=user_id, source_id=source_id, right=right, granted_at=now()))


def make_caller(user: User) -> Caller:
    """Return the caller that a token of the user authenticates."""
    return Caller(user.id, cast(Role, user.role))


def make_task(session: Session, name: str | None = None, *, labels: list[str] | None = None) -> Task:
    task = Task(
        id=new_id(),
        name=name or f"task {next(_numbers)}",
        backbone="vit_tiny_patch16_224",
        size=None,
        identity=None,
        labels=labels,
        composition="average",
        weighting="none",
        recipe={},
        created_at=now(),
    )
    session.add(task)
    session.flush()
    return task


def make_source(session: Session, task: Task, owner: User | None = None, name: str | None = None) -> Source:
    source = Source(
        id=new_id(),
        task_id=task.id,
        owner_id=None if owner is None else owner.id,
        name=name or f"source {next(_numbers)}",
        key=secrets.token_bytes(32),
        created_at=now(),
    )
    session.add(source)
    session.flush()
    return source


def make_shard(session: Session, source: Source, samples: int = 0, *, is_remote: bool = False) -> Shard:
    """Insert a shard with so many samples, which have rows but no objects."""
    highest = session.scalar(select(func.max(Shard.number)).where(Shard.source_id == source.id))
    shard = Shard(
        id=new_id(),
        source_id=source.id,
        number=0 if highest is None else highest + 1,
        generation=1,
        seed=secrets.randbelow(2**31),
        is_remote=is_remote,
        priority=0,
        attempts=0,
        is_paused=False,
    )
    session.add(shard)
    session.flush()
    for number in range(samples):
        make_sample(session, shard, f"{shard.id}/{number}".encode())
    return shard


def make_sample(session: Session, shard: Shard, body: bytes, label: str = "cat") -> Sample:
    sample = Sample(
        source_id=shard.source_id,
        shard_id=shard.id,
        digest=hashlib.sha256(body).hexdigest(),
        label=label,
        name=f"{next(_numbers)}.png",
        size_bytes=len(body),
        added_at=now(),
    )
    session.add(sample)
    session.flush()
    return sample


def make_prompt(session: Session, shard: Shard, claim: UUID | None = None) -> Prompt:
    """Insert the prompt of a shard's current generation, with a row but no object."""
    source = session.get_one(Source, shard.source_id)
    body, claim = secrets.token_bytes(64), claim or new_id()
    prompt = Prompt(
        id=claim,
        shard_id=shard.id,
        source_id=source.id,
        task_id=source.task_id,
        generation=shard.generation,
        key=prompt_key(source.id, shard.id, shard.generation, claim),
        digest=hashlib.sha256(body).hexdigest(),
        size_bytes=len(body),
        labels=["cat"],
        samples=1,
        artifact_metadata={},
        worker="test",
        published_at=now(),
    )
    session.add(prompt)
    session.flush()
    return prompt
