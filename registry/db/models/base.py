"""What all tables share: the names of constraints, and which Python type is which column."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, LargeBinary, MetaData, Text, Uuid
from sqlalchemy.orm import DeclarativeBase

from registry.db.clock import UtcDateTime

# Constraints need names for migrations to find them again.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """A table of the registry."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012  # as SQLAlchemy wants it
        UUID: Uuid(),
        datetime: UtcDateTime(),
        str: Text(),
        bytes: LargeBinary(),
        list[str]: JSON(none_as_null=True),
        dict[str, Any]: JSON(none_as_null=True),  # Any: documents of others, kept as they are
    }


def is_one_of(column: str, values: tuple[str, ...]) -> str:
    """The condition that a column of words holds one of these."""
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
