"""The registry as the command line has it: opened by the settings, acting as the operator, closed at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # SQLAlchemy takes a moment, and `--help` never needs it
    from sqlalchemy.orm import Session

    from registry.db.models.catalog import Source
    from registry.db.paging import Page
    from registry.registry import Registry

T = TypeVar("T")


@contextmanager
def opened() -> "Iterator[Registry]":
    """The registry that the settings name."""
    from registry.registry import open_registry
    from registry.settings import load_registry_settings

    registry = open_registry(load_registry_settings())
    try:
        yield registry
    finally:
        registry.database.close()


@contextmanager
def reading() -> "Iterator[Session]":
    """A transaction on the registry that changes nothing."""
    with opened() as registry, registry.database.read_transaction() as session:
        yield session


@contextmanager
def writing() -> "Iterator[Session]":
    """A transaction on the registry, committed when the block ends."""
    with opened() as registry, registry.database.write_transaction() as session:
        yield session


def all_pages(ask: "Callable[[str | None], Page[T]]") -> Iterator[T]:
    """The items of every page, asked for one after the other."""
    after = None
    while True:
        page = ask(after)
        yield from page.items
        if page.next is None:
            return
        after = page.next


def named_source(session: "Session", source: str, task: str | None) -> "Source":
    """The source of that name or id, within a task if one is named."""
    from registry.access.caller import OPERATOR
    from registry.catalog.sources import find_source
    from registry.catalog.tasks import find_task

    within = None if task is None else find_task(session, task).id
    return find_source(session, OPERATOR, within, source)
