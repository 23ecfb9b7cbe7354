"""Adding a row whose name may be taken."""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.db.models.base import Base
from registry.errors import Conflict


def insert_unique(session: Session, row: Base, taken: str) -> None:
    """Adds the row, or raises Conflict with that message and leaves the transaction as it was."""
    try:
        with session.begin_nested():
            session.add(row)
            session.flush()
    except IntegrityError as error:
        raise Conflict(taken) from error
    session.refresh(row)
