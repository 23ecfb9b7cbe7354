"""What dead processes leave behind: expired write claims, empty shards, scratch folders."""

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.fsck.finding import Finding
from registry.storage.scratch import ScratchSpace


def find_expired_claims(session: Session, scratch: ScratchSpace) -> list[Finding]:
    """Return the claims whose heartbeat stopped; files in a scratch folder elsewhere can only be removed there."""
    findings = []
    for claim in session.scalars(select(WriteClaim).where(WriteClaim.expires_at <= now()).order_by(WriteClaim.id)):
        is_here = claim.scratch_id in (None, scratch.id)
        where = (
            ""
            if is_here
            else ", with files in a scratch folder that is not on this host: start a worker on that folder"
        )
        detail = f"{claim.process} died during {'an upload' if claim.purpose == 'upload' else 'training'}{where}"
        findings.append(Finding("expired write claim", str(claim.id), detail, is_here))
    return findings


def find_empty_shards(session: Session) -> list[Finding]:
    """Return the shards with neither samples to train on nor a prompt to serve."""
    empty = (
        select(Shard.id)
        .join(Source, Source.id == Shard.source_id)
        .where(Source.erasure_id.is_(None), Shard.erasure_id.is_(None), is_empty_shard())
    )
    return [
        Finding("empty shard", str(shard), "has neither samples nor a prompt", True)
        for shard in session.scalars(empty.order_by(Shard.id))
    ]


def is_empty_shard() -> ColumnElement[bool]:
    """Return the SQL condition that a shard has neither samples nor a prompt."""
    return ~exists().where(Sample.shard_id == Shard.id) & ~exists().where(Prompt.shard_id == Shard.id)


def find_abandoned_scratch(scratch: ScratchSpace) -> list[Finding]:
    """Return the job folders in scratch that no process locks any more."""
    return [
        Finding("abandoned scratch folder", str(job_id), "was left by a process that died", True)
        for job_id in scratch.list_abandoned()
    ]
