"""The one lock that makes everything about a source happen one after the other: its row."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Source
from registry.errors import NotFound


def lock_source(session: Session, source: UUID) -> Source:
    """The source, locked until the transaction ends; one that is being forgotten is not there any more.

    Uploads, publishing, grants and forgetting all begin here, so that each sees what the others have done. After it
    come rows of the source, and last the log: whoever keeps this order never waits in a circle.
    """
    statement = select(Source).where(Source.id == source, Source.erasure_id.is_(None))
    found = session.scalars(statement.with_for_update(), execution_options={"populate_existing": True}).one_or_none()
    if found is None:
        raise NotFound("source", source)
    return found
