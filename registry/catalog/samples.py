"""Samples: list and find the pictures of a source, for callers who may manage it or forget from it."""

from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.source_rights import require_any_right
from registry.catalog.names import validate_text
from registry.datasets.limits import DEFAULT_LIMITS
from registry.datasets.member_names import quote
from registry.db.models.catalog import Sample, Source
from registry.db.paging import DEFAULT_LIMIT, Page, read_page
from registry.errors import Conflict, Forbidden, NotFound


def list_samples(
    session: Session,
    caller: Caller,
    source_id: UUID,
    after: str | None = None,
    limit: int = DEFAULT_LIMIT,
    *,
    label: str | None = None,
) -> Page[Sample]:
    """List the samples of a source, or those of one label, sorted by digest."""
    statement = _select_samples(session, caller, source_id)
    if label is not None:
        statement = statement.where(Sample.label == validate_text("a label", label))
    return read_page(session, statement, Sample.digest, after=after, limit=limit)


def find_sample(session: Session, caller: Caller, source_id: UUID, digest_or_name: str) -> Sample:
    """Find the sample with this digest, or the only one that was uploaded in a file of this name."""
    statement = _select_samples(session, caller, source_id)
    text = validate_text("the digest or name of a sample", digest_or_name, max_length=DEFAULT_LIMITS.max_name_length)
    # The digest first: otherwise a file named like the digest of another picture could hide that picture.
    sample = session.scalars(statement.where(Sample.digest == text.lower())).one_or_none()
    if sample is not None:
        return sample
    matches = session.scalars(statement.where(Sample.name == text).limit(2)).all()
    if not matches:
        raise NotFound("sample", text)
    if len(matches) > 1:
        raise Conflict(f"several samples were uploaded in a file {quote(text)}: name one by its digest")
    return matches[0]


def _select_samples(session: Session, caller: Caller, source_id: UUID) -> Select[Sample]:
    """Select all samples of a source, if the caller may see them."""
    source = session.scalars(select(Source).where(Source.id == source_id, Source.erasure_id.is_(None))).one_or_none()
    if source is None:
        raise NotFound("source", source_id)
    if require_any_right(session, caller, source).isdisjoint({"manage", "forget"}):
        raise Forbidden("you may use this source but not see its pictures: ask its owner or an admin")
    return select(Sample).where(Sample.source_id == source_id)
