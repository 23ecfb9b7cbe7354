"""An SQL condition that makes both databases evaluate a subquery once, and then look its values up in an index."""

from typing import Any

from sqlalchemy import Boolean
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorType


class in_subquery(FunctionElement[bool]):  # noqa: N801  # reads as a function in a statement
    """The condition that a column has one of the few values of a subquery.

    A join would mean the same, but only we know that the subquery yields a handful of values. PostgreSQL would rather
    scan a table than look up as many as it expects, and SQLite would build an index for every query.
    """

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: Any, subquery: Any) -> None:  # Any: a column of any type, a statement of that column
        super().__init__(column, subquery.scalar_subquery())

    def self_group(self, against: OperatorType | None = None) -> "in_subquery":  # noqa: ARG002  # SQLAlchemy's signature
        return self  # a condition already; the `= 1` that SQLAlchemy adds on SQLite would prevent the use of indexes


@compiles(in_subquery, "postgresql")
def _in_subquery_on_postgresql(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:  # Any: SQLAlchemy's own
    column, subquery = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} = ANY (ARRAY{subquery})"


@compiles(in_subquery, "sqlite")
def _in_subquery_on_sqlite(element: in_subquery, compiler: SQLCompiler, **kw: Any) -> str:
    column, subquery = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"{column} IN {subquery}"
