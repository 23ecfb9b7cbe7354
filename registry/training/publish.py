"""Publishes prompts: one transaction checks everything that could forbid it, and inserts the row that is served."""

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
from registry.access.source_rights import require_right
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

MAX_SAMPLES = 2**31 - 1  # of the integer column
REMOTE = "remote"  # the worker of a prompt that was trained elsewhere


class TaskBackboneMismatch(Conflict):
    """The prompt was trained on another backbone than its task's."""


class ArtifactMetadata(Protocol):
    """The metadata of a validated artifact; the registry itself cannot read artifacts."""

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
    def settings(self) -> Mapping[str, Any]: ...  # Any: the trainer's settings


@dataclass(frozen=True)
class PublishedMetadata:
    """The metadata of an artifact as it is published; the caller has validated it."""

    identity: str  # of the backbone that it was trained on
    labels: tuple[str, ...]
    samples: int
    extra: dict[str, Any]  # Any: JSON, such as the trainer's settings

    @classmethod
    def from_artifact(cls, artifact: ArtifactMetadata) -> "PublishedMetadata":
        """Return the metadata of an artifact as it is published."""
        others = {"architecture": artifact.architecture, "size": artifact.size, "seed": artifact.seed}
        return cls(
            artifact.backbone, artifact.labels, artifact.samples, {**others, "settings": dict(artifact.settings)}
        )


def publish(registry: Registry, lease: Lease, data: bytes, metadata: PublishedMetadata) -> Prompt:
    """Publish the prompt of a leased shard and end the lease; a repeated call returns the same prompt.

    LeaseLost if the lease was lost or part of the shard was forgotten. When it is refused, its object is removed too.
    """
    _validate_metadata(metadata)
    try:
        # A worker without the lease stops here, before it writes an object that would have to be removed.
        renew_lease(registry.database, lease, progress=1.0)
    except LeaseLost:
        with registry.database.read_transaction() as session:
            if (prompt := _find_published(session, lease)) is not None:
                return prompt
        raise
    require_own_store(registry.database, registry.objects)
    registry.objects.put(lease.prompt_key, data)
    hit_failpoint("publish: object written")
    try:
        with registry.database.write_transaction() as session:
            prompt = _publish(session, lease, data, metadata)
    except DatabaseUnreachable:
        raise  # perhaps committed: a repeated call finds out, and the claim lists what to remove if not
    except DomainError:
        with suppress(DomainError):  # if the store is unreachable, the claim still lists what to remove
            registry.objects.remove(lease.prompt_key)
        raise
    hit_failpoint("publish: committed")
    return prompt


def publish_remote(
    registry: Registry, caller: Caller, source_id: UUID, data: bytes, metadata: PublishedMetadata
) -> Prompt:
    """Publish a prompt that was trained elsewhere, without its pictures, as a new shard of the source."""
    _validate_metadata(metadata)
    require_own_store(registry.database, registry.objects)
    shard_id = new_id()

    def precheck(session: Session) -> None:
        _check_task(_get_task(session, require_right(session, caller, "manage", source_id)), metadata)

    try:
        with claim_shards(registry, source_id, [shard_id], precheck) as claim:
            registry.objects.put(prompt_key(source_id, shard_id, 1, claim.id), data)
            hit_failpoint("publish: object written")
            with registry.database.write_transaction() as session:
                source = require_right(session, caller, "manage", source_id)
                _raise_if_published(session, source, data)
                reserve_quota(session, source.owner_id, registry.default_quota_bytes, len(data))
                # Its seed is in the artifact: nobody trains it here.
                shard = new_shard(source, shard_id, next_shard_number(session, source), seed=0, is_remote=True)
                session.add(shard)
                session.flush()
                prompt = _insert_prompt(session, source, shard, claim.id, data, metadata, REMOTE)
                write_claims.commit_objects(session, claim.id)
                _append_log(session, caller.user_id, prompt)
            hit_failpoint("publish: committed")
    except _AlreadyPublished as known:
        return known.prompt
    return prompt


def _publish(session: Session, lease: Lease, data: bytes, metadata: PublishedMetadata) -> Prompt:
    try:
        source = lock_source(session, lease.source_id)
    except NotFound as error:
        raise lease_lost(lease) from error
    shard = session.scalars(select(Shard).where(is_lease_valid(lease)).with_for_update()).one_or_none()
    if shard is None:
        if (prompt := _find_published(session, lease)) is not None:
            return prompt
        raise lease_lost(lease)
    present = session.scalar(select(func.count()).select_from(Sample).where(Sample.shard_id == shard.id)) or 0
    if metadata.samples > present:
        raise Invalid(
            f"the prompt was trained on {metadata.samples} samples, but its shard has {present}: train it again"
        )
    prompt = _insert_prompt(session, source, shard, lease.id, data, metadata, lease.worker)
    clear_lease(shard)
    shard.attempts = shard.priority = 0
    shard.error = shard.not_before = None
    session.flush()
    write_claims.commit_objects(session, lease.id)
    _append_log(session, None, prompt)
    return prompt


def _find_published(session: Session, lease: Lease) -> Prompt | None:
    """Return the prompt that this lease has published."""
    return session.get(Prompt, lease.id)


class _AlreadyPublished(Exception):
    """The source has a prompt of the same bytes, for example because a client got no answer and tries again."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self.prompt = prompt


def _raise_if_published(session: Session, source: Source, data: bytes) -> None:
    """Raise _AlreadyPublished, which rolls back, if the source has this prompt."""
    same = (
        select(Prompt)
        .join(Shard, Shard.id == Prompt.shard_id)
        .where(Prompt.source_id == source.id, Prompt.digest == hashlib.sha256(data).hexdigest(), Shard.is_remote)
    )
    if (prompt := session.scalars(same).first()) is not None:
        session.expunge(prompt)  # the rollback would expire it
        raise _AlreadyPublished(prompt)


def _insert_prompt(
    session: Session, source: Source, shard: Shard, claim: UUID, data: bytes, metadata: PublishedMetadata, worker: str
) -> Prompt:
    """Insert the row if the metadata fits the task; the first prompt of a task sets its backbone's identity."""
    task = _get_task(session, source)
    if task.identity is None:
        # Of two first prompts at once, one sets it and the other sees it.
        unset = select(Task).where(Task.id == task.id).with_for_update(key_share=True)
        task = session.scalars(unset, execution_options={"populate_existing": True}).one()
    _check_task(task, metadata)
    task.identity = metadata.identity
    prompt = Prompt(
        id=claim,
        shard_id=shard.id,
        source_id=source.id,
        task_id=task.id,
        generation=shard.generation,
        key=prompt_key(source.id, shard.id, shard.generation, claim),
        digest=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        labels=list(metadata.labels),
        samples=metadata.samples,
        artifact_metadata=metadata.extra,
        worker=worker,
        published_at=now(),
    )
    session.add(prompt)
    session.flush()
    session.refresh(prompt)
    return prompt


def _get_task(session: Session, source: Source) -> Task:
    return session.scalars(select(Task).where(Task.id == source.task_id)).one()


def _validate_metadata(metadata: PublishedMetadata) -> None:
    """Refuse metadata that fits no task."""
    if not 1 <= metadata.samples <= MAX_SAMPLES:
        raise Invalid(f"a prompt is trained on 1 to {MAX_SAMPLES} samples, not {metadata.samples}")
    if not metadata.labels:
        raise Invalid("the prompt has no labels: train it on labelled pictures")
    settings = metadata.extra.get("settings")
    all_settings = {**metadata.extra, **(settings if isinstance(settings, Mapping) else {})}
    if all_settings.get("attention", "structured") != "structured":
        # Such a prompt attends to the tokens of other prompts, which it never gets here.
        raise Invalid(
            f"a prompt with {quote(str(all_settings['attention']))} attention cannot be composed: train it structured"
        )


def _check_task(task: Task, metadata: PublishedMetadata) -> None:
    """Refuse a prompt that cannot be composed with the task's other prompts."""
    if task.identity not in (None, metadata.identity):
        raise TaskBackboneMismatch(
            f"the prompt was trained on another backbone than the task's {task.backbone}, or on other weights of it: "
            "train it on the same backbone"
        )
    if task.labels is not None and (unknown := sorted(set(metadata.labels) - set(task.labels))):
        raise Conflict(f"the prompt has the label {quote(unknown[0])}, which its task does not have: train it without")


def _append_log(session: Session, actor: UUID | None, prompt: Prompt) -> None:
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
