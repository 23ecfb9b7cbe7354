"""The base class of all tables: names of constraints, and the column type of each Python type."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, LargeBinary, MetaData, Text, Uuid
from sqlalchemy.orm import DeclarativeBase

from registry.db.clock import UtcDateTime

# Migrations need constraints with names.
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
    type_annotation_map = {  # noqa: RUF012  # SQLAlchemy's interface
        UUID: Uuid(),
        datetime: UtcDateTime(),
        str: Text(),
        bytes: LargeBinary(),
        list[str]: JSON(none_as_null=True),
        dict[str, Any]: JSON(none_as_null=True),  # Any: JSON documents
    }


def is_one_of(column: str, values: tuple[str, ...]) -> str:
    """Return the SQL condition that a column has one of these values."""
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
