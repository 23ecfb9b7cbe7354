"""Publishing prompts: from here on they are served, so whatever could forbid it is looked at in one transaction."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.quotas import reserve_quota
from registry.access.rights import require_right
from registry.datasets.member_names import quote
from registry.db.clock import now
from registry.db.locks import lock_source
from registry.db.models.catalog import Sample, Shard, Source, Task
from registry.db.models.prompts import Prompt
from registry.errors import Conflict, DatabaseUnreachable, DomainError, Invalid, LeaseLost, NotFound
from registry.failpoints import hit_failpoint
from registry.ids import new_id
from registry.ingest.claim import claim_shards
from registry.ingest.insert_rows import new_shard, next_shard_number
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.keys import prompt_key
from registry.storage.ownership import require_own_store
from registry.training.lease import Lease, clear_lease, is_lease_valid, lease_lost, renew_lease

MAX_SAMPLES = 2**31 - 1  # as many as the column counts
REMOTE = "remote"  # the worker of a prompt that was trained elsewhere


class TaskBackboneMismatch(Conflict):
    """The prompt was trained on another backbone than its task's."""


class ArtifactMetadata(Protocol):
    """What a validated artifact knows of itself, told by whoever can read one."""

    @property
    def backbone(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def samples(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...  # Any: the trainer's words


@dataclass(frozen=True)
class PublishedMetadata:
    """What an artifact says of itself; whoever read it has validated its numbers."""

    identity: str  # of the backbone that it was trained on
    labels: tuple[str, ...]
    samples: int
    facts: dict[str, Any]  # Any: whatever else it says, such as its settings

    @classmethod
    def of(cls, told: ArtifactMetadata) -> "PublishedMetadata":
        """The facts of an artifact as they are published."""
        others = {"architecture": told.architecture, "size": told.size, "seed": told.seed}
        return cls(told.backbone, told.labels, told.samples, {**others, "settings": dict(told.settings)})


def publish(registry: Registry, lease: Lease, data: bytes, facts: PublishedMetadata) -> Prompt:
    """The prompt of a leased shard, served from now on, and the end of the lease; asked again, the same prompt.

    LeaseLost if the work is somebody else's by now or something of it was forgotten. Whenever it is refused, its
    object is gone too.
    """
    _require_sound(facts)
    try:
        # Whoever has lost the lease stops here, and writes nothing that would have to be cleared up.
        renew_lease(registry.database, lease, progress=1.0)
    except LeaseLost:
        with registry.database.read_transaction() as session:
            if (prompt := _published(session, lease)) is not None:
                return prompt
        raise
    require_own_store(registry.database, registry.objects)
    registry.objects.put(lease.prompt_key, data)
    hit_failpoint("publish: object written")
    try:
        with registry.database.write_transaction() as session:
            prompt = _publish(session, lease, data, facts)
    except DatabaseUnreachable:
        raise  # it may be committed or not: asking again tells, and the claim says what to remove if not
    except DomainError:
        with suppress(DomainError):  # a store that is away: the claim still says what to remove
            registry.objects.remove(lease.prompt_key)
        raise
    hit_failpoint("publish: committed")
    return prompt


def publish_remote(
    registry: Registry, caller: Caller, source_id: UUID, data: bytes, facts: PublishedMetadata
) -> Prompt:
    """A prompt that was trained elsewhere, without its pictures, as a new shard of the source, served from now on."""
    _require_sound(facts)
    require_own_store(registry.database, registry.objects)
    shard_id = new_id()

    def precheck(session: Session) -> None:
        _require_fit(_task_of(session, require_right(session, caller, "manage", source_id)), facts)

    try:
        with claim_shards(registry, source_id, [shard_id], precheck) as claim:
            registry.objects.put(prompt_key(source_id, shard_id, 1, claim.id), data)
            hit_failpoint("publish: object written")
            with registry.database.write_transaction() as session:
                source = require_right(session, caller, "manage", source_id)
                _stop_if_known(session, source, data)
                reserve_quota(session, source.owner_id, registry.default_quota_bytes, len(data))
                # Its seed is in the artifact: nobody trains it here.
                shard = new_shard(source, shard_id, next_shard_number(session, source), seed=0, is_remote=True)
                session.add(shard)
                session.flush()
                prompt = _add_prompt(session, source, shard, claim.id, data, facts, REMOTE)
                write_claims.commit_objects(session, claim.id)
                _log(session, caller.user_id, prompt)
            hit_failpoint("publish: committed")
    except _CameBefore as known:
        return known.prompt
    return prompt


def _publish(session: Session, lease: Lease, data: bytes, facts: PublishedMetadata) -> Prompt:
    try:
        source = lock_source(session, lease.source_id)
    except NotFound as error:
        raise lease_lost(lease) from error
    shard = session.scalars(select(Shard).where(is_lease_valid(lease)).with_for_update()).one_or_none()
    if shard is None:
        if (prompt := _published(session, lease)) is not None:
            return prompt
        raise lease_lost(lease)
    there = session.scalar(select(func.count()).select_from(Sample).where(Sample.shard_id == shard.id)) or 0
    if facts.samples > there:
        raise Invalid(f"the prompt speaks of {facts.samples} samples, and its shard has {there}: train it again")
    prompt = _add_prompt(session, source, shard, lease.id, data, facts, lease.worker)
    clear_lease(shard)
    shard.attempts = shard.priority = 0
    shard.error = shard.not_before = None
    session.flush()
    write_claims.commit_objects(session, lease.id)
    _log(session, None, prompt)
    return prompt


def _published(session: Session, lease: Lease) -> Prompt | None:
    """What this very lease has published."""
    return session.get(Prompt, lease.id)


class _CameBefore(Exception):
    """These very bytes are a prompt of the source already, as when a client did not hear the answer and tries again."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self.prompt = prompt


def _stop_if_known(session: Session, source: Source, data: bytes) -> None:
    """Raises what undoes this publishing if it would count one prompt twice."""
    there = (
        select(Prompt)
        .join(Shard, Shard.id == Prompt.shard_id)
        .where(Prompt.source_id == source.id, Prompt.digest == hashlib.sha256(data).hexdigest(), Shard.is_remote)
    )
    if (prompt := session.scalars(there).first()) is not None:
        session.expunge(prompt)  # undoing the transaction would empty it
        raise _CameBefore(prompt)


def _add_prompt(
    session: Session, source: Source, shard: Shard, claim: UUID, data: bytes, facts: PublishedMetadata, worker: str
) -> Prompt:
    """The row, once the facts fit the task, whose backbone the first of its prompts settles."""
    task = _task_of(session, source)
    if task.identity is None:
        # Of two sources' first prompts at once, one settles it and the other sees what it is.
        unsettled = select(Task).where(Task.id == task.id).with_for_update(key_share=True)
        task = session.scalars(unsettled, execution_options={"populate_existing": True}).one()
    _require_fit(task, facts)
    task.identity = facts.identity
    prompt = Prompt(
        id=claim,
        shard_id=shard.id,
        source_id=source.id,
        task_id=task.id,
        generation=shard.generation,
        key=prompt_key(source.id, shard.id, shard.generation, claim),
        digest=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        labels=list(facts.labels),
        samples=facts.samples,
        artifact_metadata=facts.facts,
        worker=worker,
        published_at=now(),
    )
    session.add(prompt)
    session.flush()
    session.refresh(prompt)
    return prompt


def _task_of(session: Session, source: Source) -> Task:
    return session.scalars(select(Task).where(Task.id == source.task_id)).one()


def _require_sound(facts: PublishedMetadata) -> None:
    """Refuses what no task can take."""
    if not 1 <= facts.samples <= MAX_SAMPLES:
        raise Invalid(f"a prompt speaks of 1 to {MAX_SAMPLES} samples, not {facts.samples}")
    if not facts.labels:
        raise Invalid("a prompt without labels answers nothing: train it on labelled pictures")
    settings = facts.facts.get("settings")
    stated = {**facts.facts, **(settings if isinstance(settings, Mapping) else {})}
    if stated.get("attention", "structured") != "structured":
        # It has learnt to read the tokens of other prompts, which are never shown to it here.
        raise Invalid(
            f"a prompt of {quote(str(stated['attention']))} attention cannot be composed: train it structured"
        )


def _require_fit(task: Task, facts: PublishedMetadata) -> None:
    """Refuses what this task cannot compose with its other prompts."""
    if task.identity not in (None, facts.identity):
        raise TaskBackboneMismatch(
            f"the prompt was trained on another backbone than the task's {task.backbone}, or on other weights of it: "
            "train it on the same"
        )
    if task.labels is not None and (strange := sorted(set(facts.labels) - set(task.labels))):
        raise Conflict(f"the prompt has the label {quote(strange[0])}, which its task has not: train it without")


def _log(session: Session, actor: UUID | None, prompt: Prompt) -> None:
    chain.append_entry(
        session,
        actor,
        "prompt.published",
        prompt=prompt.id,
        shard=prompt.shard_id,
        generation=prompt.generation,
        source=prompt.source_id,
        task=prompt.task_id,
        samples=prompt.samples,
    )
