"""Times in SQL: always UTC, and always by the database's clock, so that the clocks of hosts need not agree."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Float, String, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

SQLITE_FORMAT = "%Y-%m-%d %H:%M:%f"  # fixed width, so that the texts sort as the times do


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime: `timestamptz` on PostgreSQL, a text of fixed width in milliseconds on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:  # Any: either column type
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(23))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the datetime needs a time zone")
        value = value.astimezone(UTC)
        if dialect.name == "sqlite":
            return value.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # Any: the driver's type
        if value is None:
            return None
        if dialect.name == "sqlite":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        time: datetime = value
        return time.astimezone(UTC)


class now(FunctionElement[datetime]):  # noqa: N801  # reads as a function in a statement
    """The time at which the statement began, by the database's clock."""

    type = UtcDateTime()
    inherit_cache = True


class seconds_from_now(FunctionElement[datetime]):  # noqa: N801
    """The time at which the statement began plus some seconds, by the database's clock; negative for the past."""

    type = UtcDateTime()
    inherit_cache = True

    def __init__(self, seconds: float) -> None:
        super().__init__(literal(float(seconds), Float()))


@compiles(now, "postgresql")
def _now_on_postgresql(element: now, compiler: SQLCompiler, **kw: object) -> str:  # noqa: ARG001
    return "statement_timestamp()"


@compiles(now, "sqlite")
def _now_on_sqlite(element: now, compiler: SQLCompiler, **kw: object) -> str:  # noqa: ARG001
    return f"strftime('{SQLITE_FORMAT}', 'now')"


@compiles(seconds_from_now, "postgresql")
def _seconds_from_now_on_postgresql(element: seconds_from_now, compiler: SQLCompiler, **kw: object) -> str:
    return f"(statement_timestamp() + make_interval(secs => {compiler.process(element.clauses, **kw)}))"


@compiles(seconds_from_now, "sqlite")
def _seconds_from_now_on_sqlite(element: seconds_from_now, compiler: SQLCompiler, **kw: object) -> str:
    return f"strftime('{SQLITE_FORMAT}', 'now', {compiler.process(element.clauses, **kw)} || ' seconds')"
