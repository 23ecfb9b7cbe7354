"""The registry's own row, and the metadata of all tables."""

from uuid import UUID

from sqlalchemy import CheckConstraint, MetaData
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models import catalog, erasures, log, prompts, users, write_claims
from registry.db.models.base import Base

MODULES = (catalog, erasures, log, prompts, users, write_claims)  # importing them fills the metadata


class Installation(Base):
    """The one row with the registry's id, of which the object store has a copy."""

    __tablename__ = "installation"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    registry_id: Mapped[UUID]


def all_tables() -> MetaData:
    """Return the tables as the code defines them; the migrations must arrive at the same."""
    return Base.metadata
