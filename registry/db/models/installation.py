"""Which registry this database is of, so that it is never taken together with another's objects."""

from uuid import UUID

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from registry.db.models.base import Base


class Installation(Base):
    """The one row with the registry's id, of which its object store holds a copy."""

    __tablename__ = "installation"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    registry_id: Mapped[UUID]
