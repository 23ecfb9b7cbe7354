"""Row locks, and their order: first the source, then users, then rows of the source, last the log.

Every transaction that keeps this order is free of deadlocks.
"""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Source
from registry.db.models.users import User
from registry.errors import NotFound


def lock_source(session: Session, source_id: UUID) -> Source:
    """Return the source, locked until the transaction ends; NotFound if it does not exist or is being forgotten.

    Uploads, publishing, grants and erasures all begin here, so that each sees what the others have done.
    """
    statement = select(Source).where(Source.id == source_id, Source.erasure_id.is_(None))
    source = session.scalars(statement.with_for_update(), execution_options={"populate_existing": True}).one_or_none()
    if source is None:
        raise NotFound("source", source_id)
    return source


def lock_user(session: Session, user_id: UUID) -> User:
    """Return the user, locked until the transaction ends; NotFound if there is none."""
    statement = select(User).where(User.id == user_id).with_for_update(key_share=True)
    user = session.scalars(statement, execution_options={"populate_existing": True}).one_or_none()
    if user is None:
        raise NotFound("user", user_id)
    return user
